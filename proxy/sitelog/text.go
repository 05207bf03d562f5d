package sitelog

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
)

// SiteFailed is the cause of a cooldown by a breaker.
const SiteFailed = "it failed too often"

// tokenTitle is the title of the limit shown while no token may be used.
const tokenTitle = "token"

// heldRequests says how many requests are held, and whose.
func heldRequests(h *queue.SiteWaiting) string {
	verb, whose := "are", ""
	if h.Held == 1 {
		verb = "is"
	}
	switch {
	case h.Clients > 1:
		whose = fmt.Sprintf(" of %d clients", h.Clients)
	case h.Client != "":
		whose = " of " + h.Client
	}
	return status.Number(h.Held, "request", "requests") + whose + " " + verb + " held"
}

// HeldUntil describes until when a request is held, and why.
func HeldUntil(now time.Time, k queue.Blocker) string {
	text := "until " + ClockTime(now, k.Until)
	switch {
	case k.Behind:
		text = "until those before it have gone"
	case k.Asking:
		text = "until the store has answered"
	case k.Until.IsZero() && status.IsPause(k.Limit):
		text = "until the site is resumed"
	case k.Until.IsZero():
		text = "until another request is finished"
	}
	switch {
	case k.Limit == "cooldown" && k.Why == SiteFailed:
		return text + ": the site failed"
	case k.Limit == "cooldown" && k.Why != "":
		return text + ": the site refused requests (" + k.Why + ")"
	case k.Limit == "cooldown":
		return text + ": the site refused requests"
	case k.Limit == tokenTitle && k.Why != "":
		return text + ": no token may be used before (" + k.Why + ")"
	case status.IsPause(k.Limit):
		return text + ": " + k.Limit
	case k.Limit == "retry":
		return text + ", before it is sent again"
	case k.Why != "":
		return text + ", limit: " + k.Limit + " (" + k.Why + ")"
	}
	return text + ", limit: " + k.Limit
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// ClockTime is a time of day, with the date if it is another day.
func ClockTime(now, at time.Time) string {
	layout := "15:04:05"
	if at.Sub(now) > 12*time.Hour {
		layout = "2006-01-02 15:04:05"
	}
	up := at.Add(time.Second - 1).Truncate(time.Second) // it is not sent before at
	return up.In(now.Location()).Format(layout) + " (in " + InSeconds(max(at.Sub(now), 0)) + ")"
}

// InSeconds formats a duration: 2.1s, 40s, 3m20s.
func InSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
