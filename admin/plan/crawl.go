package plan

import (
	"fmt"
	"net/url"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// crawlSource gives the requests of a Crawl to all of its crawlers.
type crawlSource struct {
	request request
	left    int
}

func (c *crawlSource) next() (request, time.Duration, bool) {
	if c.left == 0 {
		return request{}, 0, false
	}
	c.left--
	return c.request, 0, true
}

// beginCrawl has the clients of a Crawl begin, all at once.
func (s *simulation) beginCrawl() {
	c := &s.scenario.Crawl
	from := &crawlSource{left: c.Requests, request: request{
		place: newPlace(c.Target, c.Path), method: c.Method, priority: c.Priority, latency: c.Latency, bytes: c.Bytes,
	}}
	for i := range min(c.Clients, c.Requests) {
		name := c.Client
		if name == "" {
			name = fmt.Sprintf("client %d", i+1)
		}
		crawler := s.newCrawler(name, from)
		crawler.later(0, crawler.next)
	}
}

// newPlace is the place of a target and an escaped path.
func newPlace(t policy.Target, path string) *place {
	p := &place{target: t, url: url.URL{Scheme: t.Scheme, Host: t.HostPort(), Path: path}}
	if t.UsualPort() {
		p.url.Host = t.Host
	}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		p.url.Path, p.url.RawPath = plain, path
	}
	return p
}
