package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

// shownLimits is the number of limits that a summary names.
const shownLimits = 3

// summary counts what a command of "abide run" did. It reads no clock.
type summary struct {
	took     time.Duration
	requests uint64 // number of requests of clients, also those that abide answered itself
	sites    int
	connects uint64   // number of CONNECTs of clients
	ports    uint64   // number of these to ports that egress.ports does not name
	unread   uint64   // number of https connections that passed unread
	unreadOf []string // the sites of these connections, with the reason
	refusals int      // number of responses that refused a request because of a limit
	unseen   int      // number of these whose request was sent again
	held     []sitelog.HeldTime
	raise    string // what would raise the rate, of the limit that held requests for longest; "": not known
	tokens   []tokenUse
}

// tokenUse counts the uses of a token.
type tokenUse struct {
	pool, label string
	uses        uint64 // attempts: a request that is sent again uses a token again
}

// summary counts from the start of the process.
func (a *program) summary(took time.Duration) summary {
	happened := a.proxy.Activity()
	connects, ports := a.proxy.Connects()
	s := summary{took: took, connects: connects, ports: ports, refusals: happened.Refusals, unseen: happened.Replayed, held: happened.Held}
	for _, site := range a.metrics.Sites() {
		s.requests += site.Requests
		if site.Requests > 0 {
			s.sites++
		}
		site.Unread.Each(func(reason string, connections uint64) {
			s.unread += connections
			s.unreadOf = append(s.unreadOf, fmt.Sprintf("%s (%s)", site.Name, status.UnreadReason{Reason: reason}.Why()))
		})
	}
	for _, pool := range a.proxy.Pools() {
		for i := range pool.Tokens {
			if t := &pool.Tokens[i]; t.Uses > 0 {
				s.tokens = append(s.tokens, tokenUse{pool.Name, t.Label, t.Uses})
			}
		}
	}
	slices.SortFunc(s.tokens, func(a, b tokenUse) int {
		return cmp.Or(cmp.Compare(b.uses, a.uses), cmp.Compare(a.pool, b.pool), cmp.Compare(a.label, b.label))
	})
	if len(s.held) > 0 {
		s.raise = a.raise(s.held[0].Site, s.held[0].Limit, time.Now())
	}
	return s
}

// write prints the summary, or why there is none.
func (s *summary) write(w io.Writer) {
	switch {
	case s.requests > 0:
		s.table(w)
	case s.unread > 0:
		fmt.Fprintf(w, "abide: %s passed unread and there was no other request, so no limit was kept: %s; see docs/clients.md#https\n", countText(int(s.unread), "https connection"), s.unreadSites())
	case s.ports > 0:
		fmt.Fprintf(w, "abide: %s came through abide, but no request in them; refused because egress.ports does not name the port: %d\n", countText(int(s.connects), "connection"), s.ports)
	case s.connects > 0:
		fmt.Fprintf(w, "abide: %s came through abide, but no request in them: see docs/troubleshooting.md\n", countText(int(s.connects), "connection"))
	default:
		fmt.Fprintln(w, "abide: no request came through abide. Some programs need more than HTTP_PROXY (Node before 22.21, PHP streams, aiohttp), and hosts in NO_PROXY are reached without abide: see docs/troubleshooting.md#nothing-goes-through-the-proxy")
	}
}

// shownUnread is the number of tunnelled sites that a summary names.
const shownUnread = 3

func (s *summary) unreadSites() string {
	list := s.unreadOf[:min(len(s.unreadOf), shownUnread)]
	text := strings.Join(list, ", ")
	if more := len(s.unreadOf) - len(list); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (s *summary) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "abide\t%s to %s in %s\n", countText(int(s.requests), "request"), countText(s.sites, "site"), sitelog.InSeconds(s.took))
	if s.unread > 0 {
		fmt.Fprintf(t, "unread\t%s passed unread, without their limits\n", countText(int(s.unread), "https connection"))
	}
	if s.refusals > 0 {
		fmt.Fprintf(t, "refused\t%s by sites, of which the command saw %d; the others were sent again\n", countText(s.refusals, "attempt"), s.refusals-s.unseen)
	}
	for i, h := range s.held {
		name := "held"
		if i > 0 {
			name = ""
		}
		if i == shownLimits {
			fmt.Fprintf(t, "%s\tand for %s\n", name, countText(len(s.held)-i, "other limit"))
			break
		}
		fmt.Fprintf(t, "%s\t%s in all, %s, the longest %s: %s\n", name, sitelog.InSeconds(h.Total), countText(h.Requests, "request"), sitelog.InSeconds(h.Longest), heldFor(h))
	}
	if len(s.tokens) > 0 {
		fmt.Fprintf(t, "tokens\t%s\n", strings.Join(s.tokenNames(), ", "))
	}
	if text := s.advice(); text != "" {
		fmt.Fprintf(t, "faster\t%s\n", text)
	}
	t.Flush()
}

// heldFor describes why requests were held.
func heldFor(h sitelog.HeldTime) string {
	switch h.Limit {
	case "":
		return h.Site + " (the command did not wait for it)"
	case "cooldown":
		return h.Site + " refused requests"
	case "token":
		return h.Site + " refused a token"
	case "retry":
		return h.Site + ", before requests were sent again"
	}
	return h.Site + ", limit: " + h.Limit
}

// shownTokens is the number of tokens that a summary names.
const shownTokens = 8

func (s *summary) tokenNames() []string {
	var list []string
	for i, one := range s.tokens {
		if i == shownTokens {
			return append(list, fmt.Sprintf("and %d more", len(s.tokens)-i))
		}
		list = append(list, fmt.Sprintf("%s of %s (%s)", one.label, one.pool, countText(int(one.uses), "attempt")))
	}
	return list
}

// advice describes what would have made the command faster, if requests were held for long
// enough to matter.
func (s *summary) advice() string {
	if len(s.held) == 0 || s.held[0].Longest < time.Second {
		return ""
	}
	most := s.held[0]
	switch most.Limit {
	case "", "retry", "token":
		return ""
	case "cooldown":
		return "the limit of " + most.Site + " under sites: in abide.yaml, so that it has no reason to refuse"
	}
	if s.raise != "" {
		return strings.ToLower(s.raise[:1]) + strings.TrimSuffix(s.raise[1:], ".")
	}
	if len(s.tokens) > 0 {
		return fmt.Sprintf("more tokens, or more than %q, if %s allows it", most.Limit, most.Site)
	}
	return fmt.Sprintf("more than %q, if %s allows it", most.Limit, most.Site)
}
