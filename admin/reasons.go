package admin

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// blockedBy says what would keep the request, "" if nothing would.
func (e Explanation) blockedBy(now time.Time) string {
	text := e.keeper(now)
	if text != "" && e.Observed {
		text += "; but mode is observe, so it goes at once"
	}
	return text
}

func (e Explanation) keeper(now time.Time) string {
	switch {
	case e.Never:
		return fmt.Sprintf("%q never has enough for what it costs, so it is refused", e.Limit)
	case e.Breaker == "open":
		return "the breaker of the site is open, because it failed several times in a row" + e.last() + ": what is new is refused with 503" + until(e.Tries, now)
	case e.closedBackends() == 0 && len(e.Backends) > 0:
		return fmt.Sprintf("the breakers of all %d backends are open, because they failed several times in a row: what is new is refused with 503%s", len(e.Backends), until(e.tries(), now))
	case e.Why != "":
		return fmt.Sprintf("%q pauses (%s), until %s", cmp.Or(e.Limit, e.Site), e.Why, when(e.Until, now))
	case e.Limit != "" && e.First:
		return fmt.Sprintf("%s for %q before it", others(e.Place-1, "waits", "wait"), e.Limit)
	case e.Limit != "" && e.Asks:
		return fmt.Sprintf("the store is asked what is left of %q", e.Limit)
	case e.Limit != "" && e.Until.IsZero():
		return fmt.Sprintf("all of %q is in use until another is done", e.Limit)
	case e.Limit != "":
		return fmt.Sprintf("%q has too little left%s", e.Limit, until(e.Until, now))
	case e.Place > 1:
		return others(e.Place-1, "is", "are") + " before it"
	}
	return ""
}

// last is how the site failed last.
func (e Explanation) last() string {
	if e.Failed == "" {
		return ""
	}
	return " (the last time because " + e.Failed + ")"
}

// broken tells whether nothing at all can be sent for now.
func (e Explanation) broken() bool {
	return e.Breaker == "open" || len(e.Backends) > 0 && e.closedBackends() == 0
}

// wouldChange says what would have it go sooner, and what nothing here changes.
func (e Explanation) wouldChange(now time.Time) []string {
	if e.Observed || e.keeper(now) == "" {
		return append(e.tunnelled(), "nothing keeps it: it goes at once")
	}
	list := e.tunnelled()
	switch {
	case e.Never:
		return append(list, fmt.Sprintf("raise the limit %q, or have it cost less", e.Limit))
	case e.broken():
		return append(list, "the breaker lets one request try, and closes when that is answered; nothing here changes that")
	case e.Why != "":
		list = append(list, fmt.Sprintf("the pause (%s) ends %s; nothing here changes that", e.Why, soon(e.Until, now)))
	case e.Asks:
		list = append(list, "the answer of the store; nothing here changes that")
	case e.Limit != "" && e.learned():
		list = append(list, fmt.Sprintf("%q is the site's own; more tokens would share it", e.Limit))
	case e.Limit != "":
		list = append(list, fmt.Sprintf("raise the limit %q", e.Limit))
	}
	for _, one := range e.Limits {
		// The queue's name for it has whose it is, too.
		if one.Limit == e.Limit || strings.HasPrefix(e.Limit, one.Limit+" of ") || !one.Keeps {
			continue
		}
		why := ""
		if one.Why != "" {
			why = " (" + one.Why + ")"
		}
		list = append(list, fmt.Sprintf("%q would keep it as well%s, until %s", one.name(), why, one.next(now)))
	}
	if e.Place > 1 {
		list = append(list, others(e.Place-1, "is", "are")+" before it: a smaller Abide-Priority goes first")
	}
	for _, one := range e.Backends {
		if one.Breaker == "open" {
			list = append(list, fmt.Sprintf("the breaker of %s is open, so the other backends do its share", one.Backend))
		}
	}
	return list
}

// learned tells whether what keeps it is a limit that the site has taught.
func (e Explanation) learned() bool {
	for _, one := range e.Limits {
		if one.Learned && one.Keeps && (one.Limit == e.Limit || strings.HasPrefix(e.Limit, one.Limit+" of ")) {
			return true
		}
	}
	return false
}

// tunnelled warns that the numbers are not about what is inside of a tunnel.
func (e Explanation) tunnelled() []string {
	if e.Intercepted || len(e.Limits) == 0 || !strings.HasPrefix(e.Target, "https:") {
		return nil
	}
	return []string{"it goes through a tunnel, where requests are not counted, unless intercept opens it"}
}

func (e Explanation) closedBackends() (n int) {
	for _, one := range e.Backends {
		if one.Breaker != "open" {
			n++
		}
	}
	return n
}

// tries is when the first of several breakers lets a request try.
func (e Explanation) tries() (first time.Time) {
	for _, one := range e.Backends {
		if first.IsZero() || one.Tries.Before(first) {
			first = one.Tries
		}
	}
	return first
}

// name is what the queue calls it.
func (l LimitNow) name() string {
	if l.Of != "" {
		return l.Limit + " of " + l.Of
	}
	return l.Limit
}

// next is when it would not keep it any more.
func (l LimitNow) next(now time.Time) string {
	at := l.Next
	if l.Cooling.After(at) {
		at = l.Cooling
	}
	return when(at, now)
}

// others are n requests and their verb.
func others(n int, one, many string) string {
	if n == 1 {
		return "1 other " + one
	}
	return fmt.Sprintf("%d others %s", n, many)
}

func until(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", until " + when(at, now)
}

// when is a time as people say it: what their clock shows then, and how long it
// is.
func when(at, now time.Time) string {
	left := at.Sub(now)
	if at.IsZero() || left <= 0 || left >= 24*time.Hour {
		return in(at, now)
	}
	return at.Add(time.Second-1).UTC().Format("15:04:05 UTC") + " (" + in(at, now) + ")"
}
