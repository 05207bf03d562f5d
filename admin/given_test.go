package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// given is Options with a proxy and a process that answer what a test says.
type given struct {
	Options
	Ready           func() []status.Check
	Reload          func() (changes []string, err error)
	Refused         func() *status.RefusedReload
	Holds           func(site string, most int) []status.Hold
	Breakers        func() []status.Breaker
	Tokens          func() status.Tokens
	Disable, Enable func(pool, label string) error
	Explain         func(method, url, client string) (status.Explanation, error)
	Limits          func() []status.Limit
	Overrides       func() map[string][]policy.Limit
	SetLimits       func(ctx context.Context, site string, body []byte) error
	ClearLimits     func(ctx context.Context, site string) (bool, error)
	Forget          func(host string) ([]status.Forgotten, error)
	Cooldowns       func(time.Duration) []status.Cooldown
	Pauses          func() map[string]status.Pause
	PauseSite       func(site string, p status.Pause) error
	ResumeSite      func(site string) (bool, error)
	TrySite         func(site string) error
	Permit          func(ctx context.Context, a status.PermitAsk) (status.Grant, error)
	Settle          func(id string, e status.PermitEnd) error
	Forecast        func(site string, requests int64) []status.Forecast
	Advice          func(now time.Time) status.AdviceList
	Report          func(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (status.Report, error)
	Bandwidth       func(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error)
	Learned         func() []string
	Jobs            func() []status.Job
	PauseJob        func(name string, pause bool) error
	Store           func(ctx context.Context) status.Store
}

// options are what New takes.
func (g *given) options() Options {
	o := g.Options
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	o.Proxy, o.Process = givenProxy{g: g}, givenProcess{g: g}
	o.History = history.New(history.Options{
		Sites: o.Metrics.Sites, Tokens: func() status.Tokens { return o.Proxy.Tokens() },
		Waiting: func() int { return len(o.Proxy.Holds("", status.MaxHolds)) },
	})
	return o
}

// none is the answer where a test says nothing.
func none[T any](f func() T) (v T) {
	if f != nil {
		return f()
	}
	return v
}

// givenProxy is a proxy; what no test asks of it is not there.
type givenProxy struct {
	Proxy
	g *given
}

func (p givenProxy) Holds(site string, most int) []status.Hold {
	if p.g.Holds == nil {
		return nil
	}
	return p.g.Holds(site, most)
}
func (p givenProxy) Breakers() []status.Breaker { return none(p.g.Breakers) }
func (p givenProxy) LearnedSites(int) []string  { return none(p.g.Learned) }
func (p givenProxy) Tokens() status.Tokens      { return none(p.g.Tokens) }
func (p givenProxy) SwitchToken(pool, label string, enable bool) error {
	return map[bool]func(pool, label string) error{true: p.g.Enable, false: p.g.Disable}[enable](pool, label)
}
func (p givenProxy) WrittenLimits() []status.Limit        { return none(p.g.Limits) }
func (p givenProxy) Overrides() map[string][]policy.Limit { return none(p.g.Overrides) }
func (p givenProxy) SetLimits(ctx context.Context, site string, body []byte) error {
	return p.g.SetLimits(ctx, site, body)
}

func (p givenProxy) ClearLimits(ctx context.Context, site string) (bool, error) {
	return p.g.ClearLimits(ctx, site)
}

func (p givenProxy) Forget(host string) ([]status.Forgotten, error) { return p.g.Forget(host) }

func (p givenProxy) Cooldowns(least time.Duration) (list []status.Cooldown) {
	if p.g.Cooldowns != nil {
		list = p.g.Cooldowns(least)
	}
	return list
}

func (p givenProxy) Pauses() map[string]status.Pause { return none(p.g.Pauses) }
func (p givenProxy) PauseSite(_ context.Context, site string, pause status.Pause) error {
	return p.g.PauseSite(site, pause)
}

func (p givenProxy) ResumeSite(_ context.Context, site string) (bool, error) {
	return p.g.ResumeSite(site)
}

func (p givenProxy) TrySite(site string) error { return p.g.TrySite(site) }
func (p givenProxy) Permit(ctx context.Context, a status.PermitAsk) (status.Grant, error) {
	return p.g.Permit(ctx, a)
}
func (p givenProxy) SettlePermit(id string, e status.PermitEnd) error { return p.g.Settle(id, e) }
func (p givenProxy) Forecast(site string, requests int64) []status.Forecast {
	if p.g.Forecast == nil {
		return nil
	}
	return p.g.Forecast(site, requests)
}

// givenProcess is a process; what no test asks of it is not there.
type givenProcess struct {
	Process
	g *given
}

func (p givenProcess) Ready() []status.Check             { return none(p.g.Ready) }
func (p givenProcess) Jobs(context.Context) []status.Job { return none(p.g.Jobs) }
func (p givenProcess) PauseJob(_ context.Context, name string, pause bool) error {
	return p.g.PauseJob(name, pause)
}
func (p givenProcess) Refused() *status.RefusedReload { return none(p.g.Refused) }
func (p givenProcess) Explain(method, url, client string) (status.Explanation, error) {
	return p.g.Explain(method, url, client)
}

func (p givenProcess) Store(ctx context.Context) (s status.Store) {
	if p.g.Store != nil {
		s = p.g.Store(ctx)
	}
	return s
}

func (p givenProcess) Reload() ([]string, error) {
	if p.g.Reload == nil {
		return nil, errors.ErrUnsupported
	}
	return p.g.Reload()
}

func (p givenProcess) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
	if p.g.Bandwidth == nil {
		return nil, nil
	}
	return p.g.Bandwidth(ctx, site, since, until, step)
}

func (p givenProcess) Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (r status.Report, err error) {
	if p.g.Report == nil {
		return r, nil
	}
	return p.g.Report(ctx, by, site, since, until, step)
}

func (p givenProcess) Advice(now time.Time) status.AdviceList {
	if p.g.Advice == nil {
		return status.AdviceList{Advice: []status.Advice{}}
	}
	return p.g.Advice(now)
}
