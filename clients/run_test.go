package clients

import "testing"

// TestAbideRunSetsUpEveryRuntime gives clients nothing but what abide run sets.
func TestAbideRunSetsUpEveryRuntime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl with HTTP2", "requests", "httpx", "undici", "java", "go"} {
		for _, s := range []setup{{intercept: "all"}, {intercept: "all", credentials: true}} {
			if s.credentials && name != "java" && name != "curl with HTTP2" {
				continue // the rest differ in nothing that is asked here
			}
			c := clientNamed(t, name)
			title := name
			if s.credentials {
				title += " with credentials"
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				c.present(t)
				o := startOrigin(t)
				config := s.write(t, o, "none")
				args := append([]string{"run", "--config", config, "--", c.command[0]}, c.arguments()...)
				out := run(t, nil, abideBinary, args...)
				if t.Failed() {
					return
				}
				c.said(t, out)
				c.reached(t, o, s)
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
