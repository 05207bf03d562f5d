package plan

import (
	"fmt"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// notes are what a reader of the result has to know.
func (s *simulation) notes(r *Result) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if !r.Finished {
		s.sayUnfinished(r, say)
	}
	if r.Refusals.Abide > 0 {
		say("abide refuses requests for now, and their clients ask again when it says: %s; queue.wait is how long requests may wait (%v)",
			most(s.tally.refusals, refusalKey.String), s.policy.Queue.Wait)
	}
	if r.Refusals.Cut > 0 {
		say("limits of bytes cut answers that stand still for longer than their stall, and clients ask for those again")
	}
	s.sayAssumptions(say)
	if s.scenario.Log != nil {
		s.sayLog(say)
	}
	return list
}

// String is what abide has refused a request for.
func (k refusalKey) String() string {
	if k.limit == "" {
		return k.reason
	}
	return k.reason + " (" + k.limit + ")"
}

func (s *simulation) sayUnfinished(r *Result, say func(string, ...any)) {
	if r.Refusals.Never > 0 {
		say("requests that abide can never send: %s, because: %s",
			status.Count(uint64(r.Refusals.Never)), most(s.tally.nevers, func(text string) string { return text }))
	}
	if rest := r.Requests - r.Answered - r.Refusals.Never; rest > 0 {
		say("not answered within ten years: %s", status.Count(uint64(rest)))
	}
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
		if unread == "" && t.Scheme == "https" && needRequests(at) && !s.policy.Interception(t.Host, t.Port, false).Open {
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

// needRequests tells whether some limit can only be kept by seeing requests.
func needRequests(limits []*policy.Limit) bool {
	for _, l := range limits {
		if l.NeedsRequests() {
			return true
		}
	}
	return false
}

// sayLog says what of the log is not in the plan.
func (s *simulation) sayLog(say func(string, ...any)) {
	log := s.scenario.Log
	if log.Left > 0 {
		say("lines of the log that are left out because they are tunnels, or were not sent to a site: %s", status.Count(uint64(log.Left)))
	}
	if log.Unreadable > 0 {
		say("lines of the log that cannot be read: %s; the first: %v", status.Count(uint64(log.Unreadable)), log.First)
	}
	if len(log.places) >= mostPlaces {
		say("the log has more than %d URLs; further ones are planned with the path /", mostPlaces)
	}
}
