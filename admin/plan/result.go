package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

// Result is how a simulated crawl went.
type Result struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"` // of the last answer
	Seconds  float64   `json:"seconds"`
	Finished bool      `json:"finished"` // false: not within ten years, or some requests can never go
	Requests int       `json:"requests"`
	Answered int       `json:"answered"`
	Recorded float64   `json:"recorded_seconds,omitempty"` // how long a log's requests took

	PerSecond  float64  `json:"per_second"` // on average
	Throughput []Bar    `json:"throughput"`
	LimitedBy  []Cause  `json:"limited_by"` // the greatest share first
	Waits      Waits    `json:"waits"`
	Refusals   Refusals `json:"refusals"`
	Notes      []string `json:"notes"`
	WhatIfs    []WhatIf `json:"what_ifs"`
}

// Bar is the answers in a part of the time.
type Bar struct {
	At        time.Time `json:"at"`
	Seconds   float64   `json:"seconds"`
	Requests  int64     `json:"requests"`
	PerSecond float64   `json:"per_second"`
}

// The kinds of causes.
const (
	ByLimit  = "limit"
	BySite   = "site"   // which takes its time to answer
	ByClient = "client" // which takes its time to ask again
)

// Cause is what clients spend their time with.
type Cause struct {
	Kind    string  `json:"kind"`
	Site    string  `json:"site,omitempty"`
	Limit   string  `json:"limit,omitempty"`
	Learned bool    `json:"learned,omitempty"` // the site has the limit, and not the configuration
	Share   float64 `json:"share"`             // of the time of all clients, 0 to 1
	Seconds float64 `json:"seconds"`           // times clients
}

// Waits is how long limits kept requests, from the first try to the last.
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

// result is how the simulation went.
func (s *simulation) result() *Result {
	t := &s.tally
	r := &Result{
		Start: s.scenario.Start, End: t.last, Requests: s.scenario.Crawl.Requests, Answered: t.answered,
		Throughput: t.series.bars(t.last), LimitedBy: s.causes(), Notes: []string{}, WhatIfs: []WhatIf{},
		Refusals: Refusals{Site: s.site.refused, PassedOn: t.passedOn, Cut: t.cut},
		Waits:    Waits{Average: t.waited.Seconds() / float64(max(t.answered, 1)), Longest: t.longest.Seconds()},
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

// causes are what clients spend their time with.
func (s *simulation) causes() (list []Cause) {
	t := &s.tally
	blocked := maps.Clone(t.blocked)
	for _, one := range s.dispatcher.Gate().Blocked() {
		blocked[blame{one.Site, one.Limit}] += time.Duration(one.Seconds * float64(time.Second))
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
	for i := range r.LimitedBy {
		if c := &r.LimitedBy[i]; c.Kind == ByLimit {
			return c
		}
	}
	return nil
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
