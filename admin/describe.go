package admin

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// Describe writes the explanation for people, as it came from the listener.
// What it says is of the process that was asked, so nothing in it can steer a
// terminal.
func (e Explanation) Describe(w io.Writer, now time.Time) {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		text := strings.Map(printable, fmt.Sprintf(format, args...))
		fmt.Fprintf(&b, "%-15s %s\n", name, text)
	}
	if e.Client != "" {
		hint := ""
		switch {
		case e.ClientGuessed && e.Held > 0:
			hint = ", who has the most requests waiting; --client names another"
		case e.ClientGuessed:
			hint = "; --client names another"
		}
		line("client", "%s%s", e.Client, hint)
	}
	if strings.HasPrefix(e.Target, "https:") {
		line("CONNECT", "%s", e.https())
		if e.OpenedAt != "" {
			line("", "opened for clients that use %s (abide env)", e.OpenedAt)
		}
	}
	line("now", "%s, %d in flight", number(e.Held, "request waits", "requests wait"), e.InFlight)
	if e.BlockedBy == "" {
		line("blocked by", "nothing")
	} else {
		line("blocked by", "%s", e.BlockedBy)
		line("place", "%d", e.Place)
		if e.Expected.IsZero() {
			line("expected", "not known")
		} else {
			line("expected", "%s", when(e.Expected, now))
		}
	}
	name := "would change"
	for _, one := range e.WouldChange {
		line(name, "%s", one)
		name = ""
	}
	name = "left"
	for _, one := range e.Limits {
		line(name, "%s", one.describe(now))
		name = ""
	}
	if e.Breaker != "" && e.Breaker != "closed" {
		line("breaker", "%s", e.Breaker)
	}
	name = "backends"
	for _, one := range e.Backends {
		line(name, "%s: breaker %s, %d in flight", one.Backend, cmp.Or(one.Breaker, "closed"), one.InFlight)
		name = ""
	}
	_, _ = io.WriteString(w, b.String())
}

// https is what becomes of the https of the request.
func (e Explanation) https() string {
	switch {
	case e.Intercepted:
		return "intercepted: its requests are seen"
	case !e.UnreadUntil.IsZero():
		return "passes unread until " + e.UnreadUntil.UTC().Format("2006-01-02 15:04:05 UTC") + " because the client refused abide's certificate"
	case e.Unread != "":
		return "passes unread: " + UnreadReason{Reason: e.Unread}.Why()
	}
	return "passes unread"
}

// unbounded is more than anybody has: what a limit answers that is not known yet.
const unbounded = 1 << 45

// describe is what is left of a limit, and when there is more.
func (l LimitNow) describe(now time.Time) string {
	text := l.name() + ": "
	switch {
	case l.Cooling.After(now):
		text += "pauses until " + when(l.Cooling, now)
		if l.Why != "" {
			text += " (" + l.Why + ")"
		}
	case l.Left < 0:
		text += "no pause"
	case l.Rate > 0:
		text += rateText(l.Rate) + " now"
		if l.Keeps {
			text += ", the next " + soon(l.Next, now)
		}
	case l.Asks:
		text += "the store is asked what is left"
	case l.Left >= unbounded:
		text += "nothing is known that keeps it"
	case l.Keeps:
		text += fmt.Sprintf("%d left, enough %s", l.Left, soon(l.Next, now))
	default:
		text += fmt.Sprintf("%d left", l.Left)
	}
	if l.Held > 0 {
		text += "; " + number(l.Held, "waits", "wait") + " for it"
	}
	if l.InFlight > 0 {
		text += fmt.Sprintf("; %d in flight", l.InFlight)
	}
	return text
}

// soon is when, where "another is done" is no time.
func soon(at, now time.Time) string {
	if at.IsZero() {
		return "when another is done"
	}
	return "at " + when(at, now)
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
