package clients

import "testing"

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
