package top

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/abide-proxy/abide/status"
)

// canned is a Source with the answers of a test. Each site has its rate of requests, of which
// abide refuses a quarter itself.
type canned struct {
	mu        sync.Mutex
	began     time.Time
	sites     []status.Site
	rates     map[string]float64
	holds     []status.Hold
	tokens    status.Tokens
	forecasts []status.Forecast
	checks    []status.Check
	failed    error    // the abide does not answer
	slow      bool     // the abide does not answer in time
	asked     int      // for its status
	forecast  int      // how often it was asked for forecasts
	changes   []string // that it was told to make
	refused   error    // why it makes none
	panics    bool     // when it is asked for its status
}

func newCanned(sites ...status.Site) *canned {
	return &canned{began: time.Now(), sites: sites, rates: map[string]float64{}}
}

// set changes the answers.
func (c *canned) set(change func(c *canned)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// answer waits and fails as the test wants.
func (c *canned) answer(ctx context.Context) error {
	c.mu.Lock()
	failed, slow, panics := c.failed, c.slow, c.panics
	c.mu.Unlock()
	if panics {
		panic("the source panics")
	}
	if slow {
		<-ctx.Done()
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
	return failed
}

func (c *canned) rate(site status.Site) status.Rate {
	n := c.rates[site.Name]
	return status.Rate{Requests: n, Own: n / 4, In: 1000 * n, Out: 100 * n}
}

func (c *canned) status(ctx context.Context) (status.Process, error) {
	if err := c.answer(ctx); err != nil {
		return status.Process{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	p := status.Process{Version: "1.2.3", Started: c.began, Uptime: time.Since(c.began).Seconds(), Checks: c.checks, Waiting: &status.Waits{N: len(c.holds)}, Connections: &status.Connections{Clients: 4, Tunnels: 1}}
	for _, one := range c.sites {
		n := c.rate(one)
		p.Rate.Requests, p.Rate.Own, p.Rate.In, p.Rate.Out = p.Rate.Requests+n.Requests, p.Rate.Own+n.Own, p.Rate.In+n.In, p.Rate.Out+n.Out
	}
	return p, nil
}

func (c *canned) list(ctx context.Context) (status.SiteList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := status.SiteList{Count: len(c.sites)}
	for _, one := range c.sites {
		one.Rate = c.rate(one)
		list.Sites = append(list.Sites, one)
	}
	return list, ctx.Err()
}

func (c *canned) Get(ctx context.Context, path string, to any) (err error) {
	switch to := to.(type) {
	case *status.Process:
		*to, err = c.status(ctx)
		return err
	case *status.SiteList:
		*to, err = c.list(ctx)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch to := to.(type) {
	case *status.HoldList:
		for _, one := range c.holds {
			if path == "holds?"+(url.Values{"site": {one.Site}}).Encode() {
				to.Holds = append(to.Holds, one)
			}
		}
	case *status.Tokens:
		*to = c.tokens
	case *[]status.Forecast:
		c.forecast++
		*to = c.forecasts
	}
	return ctx.Err()
}

func (c *canned) Change(ctx context.Context, site, what string, ask any) error {
	if ask, pauses := ask.(status.PauseAsk); pauses {
		return c.change(ctx, fmt.Sprintf("pause %s %q %q", site, ask.Reason, ask.For), site, &status.Pause{Reason: ask.Reason})
	}
	return c.change(ctx, what+" "+site, site, nil)
}

func (c *canned) change(ctx context.Context, text, site string, pause *status.Pause) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return c.refused
	}
	c.changes = append(c.changes, text)
	for i := range c.sites {
		if c.sites[i].Name == site {
			c.sites[i].Paused = pause
		}
	}
	return ctx.Err()
}

// site is a site with a name.
func site(name string) status.Site { return status.Site{Counts: status.Counts{Name: name}} }
