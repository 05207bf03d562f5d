package dispatch

import (
	"io"
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
	origin := cache.Origin(x.Target)
	if r.URL.EscapedPath() != robots.Path && !x.Snapshot.policy.Observes() {
		if waited := origin.Wait(r.Context(), patience(x)); waited > 0 {
			x.Uploading += waited // no work of abide
			if x.Options.Wait > 0 {
				x.Options.Wait = max(x.Options.Wait-waited, 1)
			}
		}
	}
	return cache.Limit(origin, x.Target, x.site, r.UserAgent())
}

// sendOwn sends a request of abide down the path of every other, so that limits, breaker
// and egress rules hold for it. It is the first that its site should see.
func (s *Dispatcher) sendOwn(r *http.Request) (*http.Response, error) {
	x, err := s.NewRequest(r)
	if err != nil {
		return nil, err
	}
	Absolute(r.URL, x.Target)
	KeepPath(r.URL)
	r.Host = r.URL.Host
	x.Client, x.Options = crawler, RequestOptions{Urgency: 1}
	s.match(x)
	resp, problem := s.sendUntilDone(x, x.Snapshot.SignVia(x.Target.Scheme, r.WithContext(x.Bind(r.Context())), ""))
	if problem != nil {
		s.End(x, 0)
		return nil, problem
	}
	x.RewriteRedirects(resp.Header)
	resp.Body = &endingBody{resp.Body, func() { s.End(x, 0) }}
	return resp, nil
}

// endingBody is a body whose request ends with it.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
