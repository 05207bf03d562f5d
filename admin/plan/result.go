package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

const (
	// longest is the longest time that a plan looks ahead.
	longest = 10 * 365 * 24 * time.Hour
	// checkEvery is after how many steps a simulation looks whether it is still wanted.
	checkEvery = 1 << 12
)

// Result describes a simulated crawl.
type Result struct {
	Start time.Time `json:"start"`
	Outcome
	Requests int     `json:"requests"`
	Answered int     `json:"answered"`
	Recorded float64 `json:"recorded_seconds,omitempty"` // how long a log's requests took

	Throughput []Bar    `json:"throughput"`
	LimitedBy  []Cause  `json:"limited_by"` // the greatest share first
	Waits      Waits    `json:"waits"`
	Notes      []string `json:"notes"`
	WhatIfs    []WhatIf `json:"what_ifs"`
}

// Outcome says what becomes of a scenario.
type Outcome struct {
	End       time.Time `json:"end"` // of the last answer
	Seconds   float64   `json:"seconds"`
	Finished  bool      `json:"finished"`   // false: not within ten years, or some requests can never go
	PerSecond float64   `json:"per_second"` // on average
	Refusals  Refusals  `json:"refusals"`
}

// WhatIf is the outcome of the same scenario with one thing changed.
type WhatIf struct {
	Change string `json:"change"`
	Outcome
	Sooner float64 `json:"sooner_seconds"` // than without the change; negative: later
}

// The kinds of causes.
const (
	ByLimit  = "limit"
	BySite   = "site"   // which takes its time to answer
	ByClient = "client" // which takes its time to ask again
)

// Cause is a limit or a pause, with the time that clients spend with it.
type Cause struct {
	Kind    string  `json:"kind"`
	Site    string  `json:"site,omitempty"`
	Limit   string  `json:"limit,omitempty"`
	Learned bool    `json:"learned,omitempty"` // the site has the limit, and not the configuration
	Share   float64 `json:"share"`             // of the time of all clients, 0 to 1
	Seconds float64 `json:"seconds"`           // times clients
}

// Waits are the times for which limits held requests, from the first try to the last.
type Waits struct {
	Average float64 `json:"average_seconds"`
	Longest float64 `json:"longest_seconds"`
}

// Refusals are answers other than what was asked for.
type Refusals struct {
	Site     int `json:"site"`      // refusals of sites, most of which abide repeats by itself
	PassedOn int `json:"passed_on"` // of these, shown to the client, who asks again
	Abide    int `json:"abide"`     // requests that abide refused for now: the client asks again
	Never    int `json:"never"`     // requests that abide refuses for good
	Cut      int `json:"cut"`       // bodies that a limit of bytes has cut: the client asks again
}

// Run simulates a scenario under a policy, and tells how it went. The result has no what-ifs.
func Run(ctx context.Context, p *policy.Policy, s Scenario) (*Result, error) {
	simulation, err := newSimulation(p, &s)
	if err != nil {
		return nil, err
	}
	switch { // the first requests come
	case s.Log == nil:
		simulation.beginCrawl()
	case s.KeepTimes:
		simulation.replayAt(0)
	default:
		simulation.beginReplay()
	}
	end := s.Start.Add(longest)
	for steps := 0; !simulation.clock.Next().After(end) && simulation.clock.Step(); steps++ {
		if steps%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return simulation.result(), nil
}

// result returns the result of the simulation.
func (s *simulation) result() *Result {
	t := &s.tally
	r := &Result{
		Start: s.scenario.Start, Outcome: Outcome{End: t.last, Refusals: Refusals{Site: s.site.refused, PassedOn: t.passedOn, Cut: t.cut}}, Requests: s.scenario.Crawl.Requests, Answered: t.answered,
		Throughput: t.series.bars(t.last), LimitedBy: s.causes(), Notes: []string{}, WhatIfs: []WhatIf{},
		Waits: Waits{Average: t.waited.Seconds() / float64(max(t.answered, 1)), Longest: t.longest.Seconds()},
	}
	if log := s.scenario.Log; log != nil {
		r.Requests, r.Recorded = log.Requests, log.Ended.Sub(log.Began).Seconds()
	}
	for _, n := range t.refusals {
		r.Refusals.Abide += n
	}
	for _, n := range t.nevers {
		r.Refusals.Never += n
	}
	r.Finished = r.Answered == r.Requests
	if r.Seconds = t.last.Sub(r.Start).Seconds(); r.Seconds > 0 {
		r.PerSecond = float64(r.Answered) / r.Seconds
	}
	r.Notes = append(r.Notes, s.notes(r)...)
	return r
}

// causes returns the causes for which clients wait, the largest first.
func (s *simulation) causes() (list []Cause) {
	t := &s.tally
	blocked := maps.Clone(t.blocked)
	for _, one := range s.dispatcher.Gate().Blocked() {
		blocked[blame{one.Site, one.Limit}] += status.DurationOf(one.Seconds)
	}
	add := func(c Cause, d time.Duration) {
		if c.Seconds = d.Seconds(); d > 0 {
			list = append(list, c)
		}
	}
	known := s.titles()
	for what, d := range blocked {
		add(Cause{Kind: ByLimit, Site: what.site, Limit: what.limit, Learned: s.site.limit != nil && !known[what]}, d)
	}
	add(Cause{Kind: BySite}, t.latency)
	add(Cause{Kind: ByClient}, t.thought)
	sum := 0.0
	for _, c := range list {
		sum += c.Seconds
	}
	for i := range list {
		list[i].Share = list[i].Seconds / sum
	}
	slices.SortFunc(list, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit))
	})
	return list
}

// titles are the limits of the configuration, and what else the queue calls by a name.
func (s *simulation) titles() map[blame]bool {
	known := map[blame]bool{}
	for _, t := range s.scenario.targets() {
		site := s.policy.Match(t).Site
		for _, name := range []string{"cooldown", "retry", "token"} {
			known[blame{site, name}] = true
		}
		for _, l := range limitsAt(s.policy, t) {
			known[blame{site, l.Title()}] = true
		}
	}
	return known
}

// top is the limit that limits most, nil if none does.
func (r *Result) top() *Cause {
	return lists.Find(r.LimitedBy, func(c *Cause) bool { return c.Kind == ByLimit })
}

// most is the most frequent of some reasons, with the number of the others.
func most[K comparable](counts map[K]int, text func(K) string) string {
	best, sum := "", 0
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(text(a), text(b)))
	}) {
		if best == "" {
			best = text(k)
		} else {
			sum += counts[k]
		}
	}
	if sum > 0 {
		best += fmt.Sprintf("; %s for other reasons", status.Count(uint64(sum)))
	}
	return best
}

// notes returns sentences that a reader of the result has to know.
func (s *simulation) notes(r *Result) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Refusals.Never > 0 {
		say("requests that abide can never send: %s, because: %s",
			status.Count(uint64(r.Refusals.Never)), most(s.tally.nevers, func(text string) string { return text }))
	}
	if rest := r.Requests - r.Answered - r.Refusals.Never; rest > 0 {
		say("not answered within ten years: %s", status.Count(uint64(rest)))
	}
	if r.Refusals.Abide > 0 {
		say("abide refuses requests for now, and their clients ask again when it says: %s; queue.wait is how long requests may wait (%v)",
			most(s.tally.refusals, refusalKey.String), s.policy.Queue.Wait)
	}
	if r.Refusals.Cut > 0 {
		say("limits of bytes cut answers that stand still for longer than their stall, and clients ask for those again")
	}
	s.sayAssumptions(say)
	log := cmp.Or(s.scenario.Log, &Log{})
	if log.Left > 0 {
		say("lines of the log that are left out because they are tunnels, or were not sent to a site: %s", status.Count(uint64(log.Left)))
	}
	if log.Unreadable > 0 {
		say("lines of the log that cannot be read: %s; the first: %v", status.Count(uint64(log.Unreadable)), log.First)
	}
	if len(log.places) >= mostPlaces {
		say("the log has more than %d URLs; further ones are planned with the path /", mostPlaces)
	}
	return list
}

// String names the reason for which abide has refused a request.
func (k refusalKey) String() string {
	if k.limit == "" {
		return k.reason
	}
	return k.reason + " (" + k.limit + ")"
}

// sayAssumptions says what the plan takes for granted.
func (s *simulation) sayAssumptions(say func(string, ...any)) {
	if s.scenario.SiteLimit == nil {
		say("sites are taken to allow whatever the configuration lets through; --site-limit gives them a limit of their own")
	}
	if s.policy.Observes() {
		say("mode is observe: nothing is held back, and so nothing waits here")
	}
	limits, robots, coalesce, unread, unnamed := 0, false, false, "", ""
	for _, t := range s.scenario.targets() {
		rule := s.policy.Match(t).Rule
		at := limitsAt(s.policy, t)
		limits += len(at)
		if rule == nil && unnamed == "" {
			unnamed = t.HostPort()
		}
		robots = robots || rule != nil && rule.Robots
		coalesce = coalesce || rule != nil && rule.Coalesce
		if unread == "" && t.Scheme == "https" && slices.ContainsFunc(at, (*policy.Limit).NeedsRequests) && !s.policy.Interception(t.Host, t.Port, false).Open {
			unread = t.Host
		}
	}
	if limits == 0 && s.scenario.SiteLimit == nil {
		say("no limit is about these requests: the number of clients and the time that answers take are all that limits them")
	}
	if unnamed != "" {
		say("no rule of the configuration is for %s: the limits of defaults hold there", unnamed)
	}
	if unread != "" {
		say("https to %s passes unread unless its client trusts the CA, and then limits of requests do not hold there; the plan has it opened", unread)
	}
	if robots {
		say("robots: true: the Crawl-delay of robots.txt is not in the plan, since nothing is asked")
	}
	if coalesce {
		say("coalesce: true: each request goes on its own here, so that fewer may be sent in fact")
	}
}
