package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/proxy/sitelog"
)

const (
	// holdShown is how long a request of the command must have waited to be reported.
	holdShown = 5 * time.Second
	// holdLookEvery is the time between two looks at the requests that wait.
	holdLookEvery = time.Second
	// holdLineEvery is the least time between two lines where there is no terminal.
	holdLineEvery = time.Minute
)

// waitingSite is a site that holds requests of the command.
type waitingSite struct {
	site  string
	held  int
	since time.Time // when the first request began to wait
	until string    // text: until when, and for which limit
	goes  time.Time // when the first request may be sent; zero: unknown
}

// holdReport decides what run prints while requests of its command are held. It reads no
// clock.
type holdReport struct {
	terminal bool      // output is a terminal with a status line
	holding  bool      // requests were held at the last update
	unsaid   bool      // these held requests have had no line yet
	next     time.Time // without a terminal: time of the next line at the earliest
}

// update returns the status line for a terminal, or without a terminal a line for the log;
// "" for none.
func (h *holdReport) update(now time.Time, waiting []waitingSite) string {
	var first *waitingSite
	more := 0
	for i := range waiting {
		site := &waiting[i]
		if now.Sub(site.since) < holdShown {
			continue
		}
		if more++; first == nil || site.since.Before(first.since) {
			first = site
		}
	}
	h.unsaid = first != nil && (h.unsaid || !h.holding)
	if h.holding = first != nil; !h.holding {
		return ""
	}
	text := fmt.Sprintf("abide holds %s to %s %s", countText(first.held, "request"), first.site, first.until)
	if more > 1 {
		text += fmt.Sprintf("; and to %s", countText(more-1, "other site"))
	}
	switch {
	case h.terminal && more == 1 && first.held == 1 && !first.goes.IsZero() && first.goes.Sub(now) <= holdLookEvery:
		return "" // erased before the command continues and writes after it
	case h.terminal:
		return text
	case !h.unsaid || now.Before(h.next):
		return ""
	}
	h.unsaid, h.next = false, now.Add(holdLineEvery)
	return text
}

// reportHolds reports held requests until ctx is done: in the terminal's status line, or in
// the log, unless the log has lines about them anyway.
func (a *program) reportHolds(ctx context.Context, t *liveLine) {
	if t == nil && a.log.IsLevelEnabled(logrus.InfoLevel) {
		return
	}
	report := holdReport{terminal: t != nil}
	tick := time.NewTicker(holdLookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if t != nil {
				t.show("")
			}
			return
		case <-tick.C:
		}
		now := time.Now()
		text := report.update(now, a.waitingSites(now))
		switch {
		case t != nil:
			t.show(text)
		case text != "":
			a.log.Warn(text)
		}
	}
}

func (a *program) waitingSites(now time.Time) []waitingSite {
	var list []waitingSite
	for _, one := range a.proxy.Waiting() {
		list = append(list, waitingSite{one.Site, one.Held, one.Since, sitelog.HeldUntil(now, one.Blocker), one.Until})
	}
	return list
}
