package dispatch

import (
	"net/http"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/robots"
)

// crawler is abide itself where it asks a site on its own account.
var crawler = &Client{Name: robots.UserAgent, Priority: queue.DefaultPriority}

// crawlDelay returns the limit that robots.txt sets a request, nil if it sets none. The first
// requests to an origin wait for it, but not for long.
func crawlDelay(x *Request, r *http.Request, cache *robots.Cache) *queue.Limit {
	if p := x.Snapshot.plans[x.rule]; p == nil || !p.Robots || x.Client == crawler {
		return nil
	}
	if x.explained {
		return cache.Limit(cache.Known(x.Target), x.Target, x.site, nil)
	}
	origin := cache.Origin(x.Target)
	if r.URL.EscapedPath() != robots.Path && !x.Snapshot.policy.Observes() {
		if waited := origin.Wait(r.Context(), patience(x)); waited > 0 {
			x.Uploading += waited // no work of abide
			if x.Options.Wait > 0 {
				x.Options.Wait = max(x.Options.Wait-waited, 1)
			}
		}
	}
	agent := r.UserAgent()
	return cache.Limit(origin, x.Target, x.site, &agent)
}
