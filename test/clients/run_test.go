package clients

import (
	"os"
	"testing"
)

// TestAbideRunGivesItsCommandTheCredentials gives clients nothing but what abide
// run sets where access.clients asks for a name and a secret.
func TestAbideRunGivesItsCommandTheCredentials(t *testing.T) {
	t.Parallel()
	s := setup{intercept: "all", credentials: true}
	for _, r := range tableRows(t) {
		for _, c := range r.runs[:min(1, len(r.runs))] {
			t.Run(r.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.present(t)
				o := startOrigin(t)
				c.worksUnderRun(t, o, nil, "--config", s.write(t, o, "none"))
			})
		}
		for _, one := range r.tools {
			t.Run(r.name+"/"+one.name, func(t *testing.T) {
				t.Parallel()
				o := one.startOrigin(t)
				one.worksUnderRun(t, o, nil, "--config", s.write(t, o, "none"))
			})
		}
	}
}

func clientNamed(t *testing.T, name string) *client {
	t.Helper()
	for i := range clients {
		if clients[i].name == name {
			return &clients[i]
		}
	}
	t.Fatalf("there is no client %q", name)
	return nil
}

// TestAbideRunTrustsWhatItsCommandWould names the origin's CA to the client alone, as
// somebody does whose company has a CA of its own.
func TestAbideRunTrustsWhatItsCommandWould(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", ""} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			o := startOrigin(t)
			env := o.environ()[1:] // without egress.roots
			want := "502"
			if variable != "" {
				env, want = append(env, variable+"="+originTrust.caFile), "200"
			}
			got := run(t, env, abideBinary, "run", "--", "curl", "-q", "-sS", "-o", os.DevNull, "-w", "%{http_code}", "https://"+apiHost+"/get")
			if got != want {
				t.Errorf("the status is %s, not %s", got, want)
			}
		})
	}
}
