package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/abide-proxy/abide/admin/advice"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

// untrusted describes handshakes in which a program refused abide's certificate.
const untrusted = "%s failed, as a program does not trust abide's CA: in Python leave out verify=FILE and start it by REQUESTS_CA_BUNDLE=FILE abide run, Chromium needs --browsers, see docs/clients.md#certificates"

// shortHold is the length up to which holds are not worth a line, nor advice.
const shortHold = time.Second

// summary counts what a command of "abide run" did. It reads no clock.
type summary struct {
	took     time.Duration
	holding  time.Duration // of it, in which requests were held, at most
	requests uint64        // number of requests of clients, also those that abide answered itself
	sites    int
	connects uint64   // number of CONNECTs of clients
	ports    uint64   // number of these to ports that egress.ports does not name
	unread   uint64   // number of https connections that passed unread
	unreadOf []string // the sites of these connections, with the reason
	refused  uint64   // number of these connections whose client does not accept abide's certificate
	refusals int      // number of responses that refused a request because of a limit
	unseen   int      // number of these whose request was sent again
	held     []sitelog.HeldTime
	browser  uint64 // number of requests of browsers themselves, which count nowhere else
	hosts    int    // number of the hosts of these requests
	learned  []status.Announced
	rejected int64  // number of TLS handshakes in which a program refused abide's certificate
	raise    string // what would raise the rate, of the limit that held requests for longest; "": not known
	tokens   []tokenUse
	denied   []status.DeniedToken // of the pools of these sites, also those that an earlier process has put away
	failures status.Failures
	broken   []status.Breaker // sites that are left alone, or fail each request
	outages  map[string]sitelog.Outages
	ended    time.Time
	pauses   []status.Cooldown  // after refusals, those that went on
	spent    []status.Announced // limits with more only later than a request may wait, where abide answered such requests
}

// tokenUse counts the uses of a token.
type tokenUse struct {
	Pool  string `json:"pool"`
	Label string `json:"label"`
	Uses  uint64 `json:"attempts"`         // a request that is sent again uses a token again
	Out   string `json:"denied,omitempty"` // why sites do not accept it
}

func (u tokenUse) String() string {
	return fmt.Sprintf("%s of %s (%s)", u.Label, u.Pool, countText(int(u.Uses), "attempt"))
}

// summary counts from the start of the process. settled has the number of requests by site that the command gave up
// before it began to end, because it was stopped or by itself.
func (a *program) summary(took time.Duration, settled map[string]uint64, stopped bool) summary {
	happened := a.proxy.Activity()
	connects, ports := a.proxy.Connects()
	ofBrowser := a.policy.Load().OfBrowser
	s := summary{took: took, ended: time.Now(), connects: connects, ports: ports, refusals: happened.Refusals, unseen: happened.Replayed, held: happened.Held, failures: status.Failures{Codes: a.metrics.Failed(), Own: a.metrics.OwnAnswers()}, learned: a.proxy.Learned(), rejected: a.proxy.Rejections(), broken: status.NotClosed(a.proxy.Breakers()), outages: happened.Outages, pauses: a.proxy.Cooldowns(shortHold)}
	for _, b := range a.proxy.Blocked() {
		s.holding += status.DurationOf(b.Busy)
	}
	maps.DeleteFunc(s.outages, func(site string, o sitelog.Outages) bool { return o.Lasted < shortHold || ofBrowser(site) })
	for reason, n := range a.ofBrowser.all() {
		s.failures.Own[reason] -= min(n, s.failures.Own[reason])
	}
	atEnd := func(reason string) bool { return reason == status.Draining && !stopped } // the end of abide is that of the command, and no failure
	maps.DeleteFunc(s.failures.Own, func(reason string, n uint64) bool { return n == 0 || atEnd(reason) })
	for site, codes := range s.failures.Codes {
		codes = slices.DeleteFunc(codes, func(c status.CodeCount) bool { return atEnd(strings.TrimPrefix(c.Reason, status.ByAbide)) })
		if s.failures.Codes[site] = codes; len(codes) == 0 || ofBrowser(site) {
			delete(s.failures.Codes, site)
			continue
		}
		_, left, reasons := status.Failures{Codes: map[string][]status.CodeCount{site: codes}}.Count()
		open := left - min(left, settled[site])
		if !stopped {
			open = min(open, reasons[""]) // a command can end because its requests reach their time-out
		}
		if open > 0 {
			s.failures.Open += open
			s.failures.At = append(s.failures.At, site)
		}
	}
	slices.Sort(s.failures.At)
	pools := map[string]bool{} // of the sites
	for _, site := range a.metrics.Sites() {
		if ofBrowser(site.Name) {
			s.browser += site.Requests
			s.hosts += min(int(site.Requests), 1)
			continue
		}
		s.requests += site.Requests
		if site.Requests > 0 {
			s.sites++
			pools[a.poolOf(site.Name)] = true
		}
		site.Unread.Each(func(reason string, connections uint64) {
			s.unread += connections
			if reason == string(policy.UnreadRefused) {
				s.refused += connections
			}
			s.unreadOf = append(s.unreadOf, fmt.Sprintf("%s (%s)", site.Name, status.UnreadReason{Reason: reason}.Why()))
		})
	}
	for _, pool := range a.proxy.Pools() {
		if pools[pool.Name] {
			s.denied = append(s.denied, pool.Denied()...)
		}
		for i := range pool.Tokens {
			if t := &pool.Tokens[i]; t.Uses > 0 {
				use := tokenUse{Pool: pool.Name, Label: t.Label, Uses: t.Uses}
				if t.Denied() {
					use.Out = t.Why
				}
				s.tokens = append(s.tokens, use)
			}
		}
	}
	s.broken = slices.DeleteFunc(s.broken, func(b status.Breaker) bool { return ofBrowser(b.Site) })
	slices.SortFunc(s.tokens, func(a, b tokenUse) int {
		return cmp.Or(cmp.Compare(b.Uses, a.Uses), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Label, b.Label))
	})
	s.spent = slices.DeleteFunc(slices.Clone(s.learned), func(l status.Announced) bool {
		return l.Remaining != 0 || l.Reset.Sub(s.ended) < shortHold || !slices.ContainsFunc(s.failures.Codes[l.Site], func(c status.CodeCount) bool { return c.Reason == status.ByAbide+"wait" })
	})
	s.held = slices.DeleteFunc(s.held, func(h sitelog.HeldTime) bool {
		return h.Longest < shortHold && h.Total < max(took/10, time.Duration(h.Requests)*time.Second/20) || ofBrowser(h.Site)
	})
	if len(s.held) > 0 {
		facts, first := a.adviceFacts(time.Now()), s.held[0]
		facts.Pools[first.Site] = a.poolOf(first.Site)
		s.raise = advice.Raise(facts, first.Site, first.Limit)
	}
	return s
}

// waitingSites lists the sites that hold requests, but for those of browsers themselves.
func (a *program) waitingSites(now time.Time) []waitingSite {
	named := sync.OnceValue(a.proxy.Named)
	var list []waitingSite
	for _, one := range a.proxy.Waiting() {
		if !a.policy.Load().OfBrowser(one.Site) {
			until := strings.Replace(sitelog.HeldUntil(now, one.Held, one.Blocker), "limit: "+one.Limit, named()(one.Site, one.Limit), 1)
			list = append(list, waitingSite{one, until})
		}
	}
	return list
}

// write prints the summary, or why there is none.
func (s *summary) write(w io.Writer) {
	switch {
	case s.requests+s.browser > 0:
		s.table(w)
	case s.unread > 0:
		sites := strings.Join(named(s.unreadOf, shownUnread, strings.Clone), ", ")
		fmt.Fprintf(w, "abide: %s passed unread and there was no other request, so no limit was kept: %s; see docs/clients.md#https\n", countText(int(s.unread), "https connection"), sites)
	case s.ports > 0:
		fmt.Fprintf(w, "abide: %s came through abide, but no request in them; refused because egress.ports does not name the port (--egress-ports any allows each): %d\n", countText(int(s.connects), "connection"), s.ports)
	case s.rejected > 0:
		fmt.Fprintf(w, "abide: no request came through abide: "+untrusted+"\n", countText(int(s.rejected), "TLS handshake"))
	case s.connects > 0:
		fmt.Fprintf(w, "abide: %s came through abide, but no request in them: see docs/troubleshooting.md\n", countText(int(s.connects), "connection"))
	default:
		fmt.Fprintln(w, "abide: no request came through abide. The command may have sent none, as when it had nothing left to do. Otherwise it may need more than HTTP_PROXY (Node before 22.21: EnvHttpProxyAgent of undici for fetch, https-proxy-agent for https.get; PHP streams; aiohttp: trust_env=True; urllib3: ProxyManager), and hosts in NO_PROXY are reached without abide: see docs/troubleshooting.md#nothing-goes-through-the-proxy")
	}
}

// gaveUp tells whether requests of the command ended without an answer of their site, all answers failed, or
// requests went by abide: all of them, or because the command does not accept its certificate.
func (s *summary) gaveUp() bool {
	failed, left, _ := s.failures.Count()
	return left > 0 || failed >= s.requests && s.requests > 0 || len(s.failures.Own) > 0 || s.refused > 0 || s.requests+s.connects == 0
}

// heldJSON is a limit that held requests, in the file of the summary.
type heldJSON struct {
	Site     string  `json:"site"`
	Limit    string  `json:"limit"`
	Source   string  `json:"source,omitempty"` // of a learned limit; "": it is written
	Found    string  `json:"found,omitempty"`  // what was found of a limit that is not announced
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"` // of all requests together
	Longest  float64 `json:"longest_seconds"`
}

// writeJSON writes the summary as one JSON object.
func (s *summary) writeJSON(w io.Writer) error {
	held := []heldJSON{}
	for _, h := range s.held {
		_, source, found := s.source(h)
		held = append(held, heldJSON{h.Site, h.Limit, source, found, h.Requests, h.Total.Seconds(), h.Longest.Seconds()})
	}
	outages := append([]map[string]any{}, lists.Map(slices.Sorted(maps.Keys(s.outages)), func(at string) map[string]any {
		return map[string]any{"site": at, "seconds": s.outages[at].Lasted.Seconds(), "times": s.outages[at].Times, "why": s.outages[at].Why}
	})...)
	return json.NewEncoder(w).Encode(map[string]any{
		"seconds": s.took.Seconds(), "requests": s.requests, "sites": s.sites, "browser_requests": s.browser, "https_unread": s.unread,
		"refused": s.refusals, "refused_seen": s.refusals - s.unseen, "failed": s.failures.Codes, "spent": append([]status.Announced{}, s.spent...), "outages": outages, "pauses": append([]status.Cooldown{}, s.pauses...), "own_answers": s.failures.Own, "open_at_end": s.failures.Open, "certificate_refused": s.rejected,
		"held": held, "tokens": append([]tokenUse{}, s.tokens...), "denied": append([]status.DeniedToken{}, s.denied...), "faster": s.advice(),
	})
}

// shownLimits is the number of limits that a summary names, shownUnread that of tunnelled sites, and shownTokens of tokens.
const shownLimits, shownUnread, shownTokens = 3, 3, 8

func (s *summary) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(shown bool, name, format string, args ...any) {
		if shown {
			fmt.Fprintf(t, name+"\t"+format+"\n", args...)
		}
	}
	row(true, "abide", "%s to %s in %s", countText(int(s.requests), "request"), countText(s.sites, "site"), sitelog.InSeconds(s.took))
	row(s.browser > 0, "browser", "the browser itself: %s to %s", countText(int(s.browser), "request"), countText(s.hosts, "host"))
	row(s.unread > 0, "unread", "%s passed unread, without their limits", countText(int(s.unread), "https connection"))
	seen, again := ", which the command did not see", ": abide sent the same requests again"
	if n := s.refusals - s.unseen; n > 0 {
		seen, again = fmt.Sprintf(", of which the command saw %d", n), "; abide sent the other requests again"
	}
	if s.failures.Own["wait"] > 0 {
		again = "" // some ended before
	}
	row(s.refusals > 0, "refused", "%s by sites%s%s", countText(s.refusals, "attempt"), seen, again)
	row(s.rejected > 0, "https", untrusted, countText(int(s.rejected), "TLS handshake"))
	rows := func(name string, list []string) {
		for _, text := range list {
			row(true, name, "%s", text)
			name = ""
		}
	}
	why := func(b status.Breaker) string { return b.Name() + " failed: " + b.Why }
	over := func(at string) string { return at + " let no request succeed for " + s.outages[at].String() }
	spent := func(l status.Announced) string {
		return l.Site + ": " + l.Label() + ", all used" + sitelog.Until(s.ended, l.Reset)
	}
	long := slices.DeleteFunc(slices.Clone(s.pauses), func(c status.Cooldown) bool { return c.Until.Sub(s.ended) < status.LongPause })
	pause := func(c status.Cooldown) string {
		return c.Site + ": " + c.Text() + "," + sitelog.Until(s.ended, c.Until)
	}
	rows("failed", slices.Concat(s.failures.Sentences("the command"), named(s.spent, shownLimits, spent), named(long, shownLimits, pause), named(s.broken, shownLimits, why), named(slices.Sorted(maps.Keys(s.outages)), shownLimits, over)))
	told := map[string]int{} // :: why requests were held → the times; the pauses of an outage are one row
	causes := slices.DeleteFunc(slices.Clone(s.held), func(h sitelog.HeldTime) bool {
		told[s.heldFor(h)]++
		return told[s.heldFor(h)] > 1
	})
	held := lists.Map(causes, func(h sitelog.HeldTime) string {
		times := sitelog.InSeconds(h.Longest)
		if h.Requests > 1 {
			times = fmt.Sprintf("%s each on average, the longest %s", sitelog.InSeconds(h.Total/time.Duration(h.Requests)), times)
		}
		return fmt.Sprintf("%s, %s: %s", countText(h.Requests, "request"), times, s.heldFor(h))
	})
	if more := len(held) - shownLimits; more > 1 {
		held = append(held[:shownLimits], fmt.Sprintf("and for %s: --summary FILE lists all", countText(more, "other limit")))
	}
	rows("held", held)
	row(len(s.tokens) > 0, "tokens", "%s", strings.Join(named(s.tokens, shownTokens, tokenUse.String), ", "))
	row(len(s.denied) > 0, "denied", "%s: replace each or remove it from its pool", strings.Join(named(s.denied, shownTokens, status.DeniedToken.String), ", "))
	faster := s.advice()
	row(faster != "", "faster", "%s", faster)
	t.Flush()
}

// heldFor describes why requests were held.
func (s *summary) heldFor(h sitelog.HeldTime) string {
	switch {
	case h.Limit == "":
		return h.Site + " (the command did not wait for it)"
	case s.failed(h) && (h.Limit == "cooldown" || h.Limit == "retry"):
		return h.Site + " let no request succeed"
	}
	if text, _, _ := s.source(h); text != "" {
		return h.Site + ", " + text
	}
	if name := status.LimitName(h.Limit); name != h.Limit {
		if pause := s.pause(h); pause != nil {
			name += " (" + pause.Why + ")"
		}
		return h.Site + ", " + name
	}
	return h.Site + ", limit: " + h.Limit
}

// source is Announced.Source of the limit that held requests, if it is learned.
func (s *summary) source(h sitelog.HeldTime) (text, source, found string) {
	if l := lists.Find(s.learned, func(l *status.Announced) bool { return l.Site == h.Site && l.Title == h.Limit }); l != nil {
		return l.Source()
	}
	return "", "", ""
}

// pause is the pause of a site after refusals that has held requests and goes on, nil for none.
func (s *summary) pause(h sitelog.HeldTime) *status.Cooldown {
	return lists.Find(s.pauses, func(c *status.Cooldown) bool { return c.Site == h.Site && h.Limit == "cooldown" })
}

// failed reports whether a site is left alone, fails each request, or has paused requests in an outage that is over: for
// about as long as that lasted.
func (s *summary) failed(h sitelog.HeldTime) bool {
	return s.outages[h.Site].Lasted > h.Longest*3/4 && (h.Limit == "cooldown" || h.Limit == "retry") || slices.ContainsFunc(s.broken, func(b status.Breaker) bool { return b.Site == h.Site })
}

// named names the first of all, and counts those that are too many to be named.
func named[T any](all []T, most int, text func(T) string) []string {
	list := lists.Map(all[:min(len(all), most)], text)
	if n := len(all) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return list
}

// longRun is the length from which on a command may be told that it was slow by itself.
const longRun = 10 * time.Second

// advice describes what would have made the command faster, if requests were held for long
// enough to matter.
func (s *summary) advice() string {
	if free := s.took - s.holding; s.took >= longRun && 2*free > s.took && len(s.broken)+len(s.outages) == 0 && s.failures.Own["wait"] == 0 {
		return fmt.Sprintf("for %s abide held no request: the command (its delays, the number of its clients) or the time of the answers set the pace", sitelog.InSeconds(free))
	}
	banned := func(l status.Announced) bool { return l.Blocked && l.Site == s.held[0].Site } // it was found as its site refused everything for a while
	if len(s.held) == 0 || s.held[0].Limit == "" || s.raise == "" || s.failed(s.held[0]) && !slices.ContainsFunc(s.learned, banned) || s.pause(s.held[0]) != nil {
		return "" // the site, or who wrote the limit, allows no more
	}
	text := strings.ToLower(s.raise[:1]) + strings.TrimSuffix(s.raise[1:], ".")
	if len(s.denied) > 0 {
		text = "first what is denied; then " + text
	}
	return text
}

// maxCounts bounds the keys of counts.
const maxCounts = 1000

// counts counts by key. It is safe for concurrent use; the zero value has no counts.
type counts struct {
	mu  sync.Mutex
	key map[string]uint64
}

func (c *counts) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == nil {
		c.key = map[string]uint64{}
	}
	if _, there := c.key[key]; there || len(c.key) < maxCounts {
		c.key[key]++
	}
}

func (c *counts) all() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.key)
}
