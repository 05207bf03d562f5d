//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
	"github.com/abide-proxy/abide/store"
)

// suffered is what became of one site.
type suffered struct {
	Fault, Outage string

	Over   int64         // requests above the limit, in the worst window
	Before float64       // which part of the budget was used, in the window before
	During float64       // in the windows that it touched
	After  float64       // in the three after those
	Next   time.Duration // from its end until the next request
	Full   time.Duration // from its end until a window began (0: or was going on) that was used as usual; negative: none was
	Held   time.Duration // the longest that a request waited at a site whose limit nobody reaches
	Failed int           // requests with an error
	Hung   int           // that had no answer although all was well for two windows
	Lines  float64       // in the log of each abide
	Cores  float64       // that all abides used, while it lasted and in the window after
	Usual  float64       // before
	Well   bool          // all abides run and answer
	Said   string        // what the first abide logged of it, without times

	beyond int64 // Over, but for requests that only came late
}

// usual is how much of a window is used when nothing is wrong, at least.
const usual = 0.95

// suffer has something go wrong.
func (b *bed) suffer(ctx context.Context, f fault, quick bool, say func(string, ...any)) ([]suffered, error) {
	defer b.clear()
	if f.window == 0 {
		f.window = 5 * time.Second
	}
	if quick && f.quick > 0 {
		f.lasts = f.quick
	}
	of := budget{amount: 40 * int64(f.window/time.Second), window: f.window}
	of.yaml = fmt.Sprintf("{requests: %d, per: %v, as: fixed}", of.amount, of.window)
	s, sites, err := b.stage(ctx, f, of)
	if err != nil {
		return nil, err
	}
	crowds := []*crowd{}
	for _, host := range []string{"share.test", "strict.test", "open.test"} {
		// One and a half times of what there is.
		crowds = append(crowds, &crowd{host: host, members: s.members, sessions: 3, length: 50, parallel: 4, think: 200 * time.Millisecond})
	}
	for _, m := range s.members {
		crowds = append(crowds, &crowd{host: "probe.test", members: []*member{m}, sessions: 1, length: 1 << 20, parallel: 1, think: 15 * time.Millisecond})
	}
	t := &course{budget: of, what: f, sites: sites}
	err = b.crowds(ctx, func(ctx context.Context) error { return t.run(ctx, s) }, crowds...)
	if b.verbose {
		for i, m := range s.members {
			fmt.Fprintf(os.Stderr, "--- abide %d\n%s\n", i, m.Said.End())
		}
	}
	if err != nil {
		return nil, err
	}
	var list []suffered
	for i, outage := range []string{"share", "strict", "open"} {
		item := t.judge(sites[i].seen(false))
		item.Outage = outage
		_, item.Failed = crowds[i].between(t.from, t.to)
		for _, d := range crowds[i].left {
			if d > 2*of.window+store.RecoveryTime {
				item.Hung++
			}
		}
		if outage == "share" {
			for _, c := range crowds[3:] {
				took, failed := c.between(t.begun.Add(-time.Second), t.ended.Add(of.window))
				for _, d := range append(took, c.left...) {
					item.Held = max(item.Held, d)
				}
				if b.verbose {
					c.long(t, 100*time.Millisecond)
				}
				item.Failed += failed
			}
		}
		say("%s: %s: over %d, used %.0f %% before, %.0f %% during, %.0f %% after, next %v, full %v, held %v, %d failed, %d hung, %.1f lines, %.2f cores (%.2f), well %v",
			f.name, outage, item.Over, 100*item.Before, 100*item.During, 100*item.After, item.Next, item.Full, item.Held, item.Failed, item.Hung, item.Lines, item.Cores, item.Usual, item.Well)
		list = append(list, item)
	}
	return list, nil
}

// stage starts what the fault needs, and waits until all is as usual.
func (b *bed) stage(ctx context.Context, f fault, of budget) (*scene, []*origin, error) {
	s := &scene{bed: b}
	var err error
	if s.redis, err = b.redisAt(ctx); err != nil {
		return nil, nil, err
	}
	url := s.redis.url()
	if f.toxic {
		if s.replica, err = b.redisAt(ctx); err != nil {
			return nil, nil, err
		}
		if s.toxic, err = b.toxicAt(ctx, s.redis); err != nil {
			return nil, nil, err
		}
		url = "redis://" + s.toxic.at
	}
	if f.clock {
		if s.replica, err = b.redisAt(ctx); err != nil {
			return nil, nil, err
		}
		if s.clock, err = b.shiftedTo(ctx, s.redis.at); err != nil {
			return nil, nil, err
		}
		url = "redis://" + s.clock.at
	}
	var sites []*origin
	var rules []rule
	for _, one := range []rule{
		{limit: of.yaml},
		{limit: of.yaml, outage: "strict"},
		{limit: of.yaml, outage: "open"},
		{limit: "{requests: 10000000, per: 5s, as: fixed}"},
	} {
		if one.origin, err = b.originAt([]string{"share.test", "strict.test", "open.test", "probe.test"}[len(sites)], 100); err != nil {
			return nil, nil, err
		}
		sites, rules = append(sites, one.origin), append(rules, one)
	}
	for range 4 {
		m, err := b.memberAt(ctx, url, rules)
		if err != nil {
			return nil, nil, err
		}
		s.members = append(s.members, m)
	}
	if s.replica != nil {
		if err := s.replica.follow(ctx, s.redis); err != nil {
			return nil, nil, err
		}
	}
	pause(ctx, 3500*time.Millisecond) // a store that is new gives nothing at first
	return s, sites, ctx.Err()
}

// course is when what happened.
type course struct {
	budget
	what         fault
	sites        []*origin
	from, to     time.Time // whole windows
	begun, ended time.Time
	lines        float64
	usual, cores float64
	well         bool
	said         string
}

func (t *course) run(ctx context.Context, s *scene) error {
	if err := t.flows(ctx); err != nil {
		return err
	}
	t.from = t.edge(t.edge(time.Now()).Add(time.Millisecond))
	at := t.from.Add(t.window + t.what.phase)
	if err := until(ctx, t.from); err != nil {
		return err
	}
	worked := s.worked()
	if t.what.before != nil {
		if err := until(ctx, at.Add(-t.what.early)); err != nil {
			return err
		}
		if err := t.what.before(ctx, s); err != nil {
			return err
		}
	}
	if err := until(ctx, at); err != nil {
		return err
	}
	t.begun = time.Now()
	t.usual = (s.worked() - worked).Seconds() / t.begun.Sub(t.from).Seconds()
	lines, worked := s.lines(), s.worked()
	before := s.members[len(s.members)-1].Said.Lines()
	if err := t.what.begin(ctx, s); err != nil {
		return err
	}
	if err := t.again(ctx, s, at); err != nil {
		return err
	}
	if err := until(ctx, at.Add(t.what.lasts)); err != nil {
		return err
	}
	if err := t.what.end(ctx, s); err != nil {
		return err
	}
	t.ended = time.Now()
	if err := until(ctx, t.ended.Add(t.window)); err != nil {
		return err
	}
	t.cores = (s.worked() - worked).Seconds() / time.Since(t.begun).Seconds()
	t.to = t.edge(t.ended).Add(max(3*t.window, 2*store.RecoveryTime))
	if err := until(ctx, t.to.Add(time.Second/2)); err != nil {
		return err
	}
	t.lines = float64(s.lines()-lines) / float64(len(s.members))
	t.said = told(s.members[len(s.members)-1].Said, before)
	t.well = true
	for _, m := range s.members {
		t.well = t.well && m.well(ctx)
	}
	return nil
}

// again does what is done more than once while the fault lasts.
func (t *course) again(ctx context.Context, s *scene, at time.Time) error {
	for n := 0; t.what.each != nil && at.Before(t.begun.Add(t.what.lasts)); n++ {
		if err := until(ctx, at); err != nil {
			return err
		}
		if err := t.what.each(ctx, s, n); err != nil {
			return err
		}
		at = at.Add(t.what.every)
	}
	return nil
}

// flows waits until every site has been asked: on a busy machine the instances take
// longer to agree on what is left.
func (t *course) flows(ctx context.Context) error {
	for _, o := range t.sites {
		for len(o.seen(false)) == 0 {
			pause(ctx, 50*time.Millisecond)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge says what the origin saw of it.
func (t *course) judge(events []event) suffered {
	item := suffered{
		Fault: t.what.name, Over: t.over(events), Next: first(events, t.ended), Full: -1,
		Before: t.used(events, t.from, t.from.Add(t.window)),
		During: t.used(events, t.begun.Truncate(t.window), t.edge(t.ended)),
		After:  t.used(events, t.edge(t.ended), t.to),
		beyond: t.beyond(events, lateness),
		Lines:  t.lines, Cores: t.cores, Usual: t.usual, Well: t.well, Said: t.said,
	}
	for w := t.ended.Truncate(t.window); w.Before(t.to); w = w.Add(t.window) {
		if t.used(events, w, w.Add(t.window)) >= usual {
			item.Full = max(w.Sub(t.ended), 0)
			break
		}
	}
	return item
}

func (s *scene) lines() (n int) {
	for _, m := range s.members {
		n += m.Said.Lines()
	}
	return n
}

func (s *scene) worked() (d time.Duration) {
	for _, m := range s.members {
		if u, err := process.UsageOf(m.ID()); err == nil { // one that was killed has gone
			d += u.CPU
		}
	}
	return d
}

// long tells of requests that took long.
func (c *crowd) long(t *course, d time.Duration) {
	for _, s := range c.samples {
		if s.took > d {
			fmt.Fprintf(os.Stderr, "%s: at %v, %v since the fault, %v until the end of it: %v\n",
				c.host, s.began.Format("05.000"), s.began.Sub(t.begun), t.ended.Sub(s.began), s.took)
		}
	}
}

// told is what a log says of the store from a line on, each message once.
func told(said *process.Said, from int) string {
	lines := strings.Split(said.End(), "\n")
	lines = lines[max(0, len(lines)-(said.Lines()-from)):]
	var list []string
	for _, line := range lines {
		_, text, found := strings.Cut(line, "msg=")
		if !found {
			continue
		}
		text = strings.Trim(text, "\"")
		if !strings.Contains(text, "the store") {
			continue
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}
