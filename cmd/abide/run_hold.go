package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/proxy"
)

const (
	// holdShown is how long a request of the command must have waited to be told of.
	holdShown = 5 * time.Second
	// holdLookEvery is how often run looks at what waits.
	holdLookEvery = time.Second
	// holdLineEvery is the least time between two lines where there is no terminal.
	holdLineEvery = time.Minute
)

// waitingSite is what run tells of a site that holds requests of its command.
type waitingSite struct {
	site  string
	held  int
	since time.Time // when the first of them began to wait
	until string    // until when, and for which limit
	goes  time.Time // when the first may go; zero: nobody knows
}

// holdReport decides what run says while requests of its command are held. It is
// pure.
type holdReport struct {
	terminal bool      // there is a line that is kept up to date
	holding  bool      // as of the last look
	unsaid   bool      // this hold has had no line yet
	next     time.Time // no line before, without a terminal
}

// look answers the status line for a terminal, "" for none, or else a line to write,
// "" for none.
func (h *holdReport) look(now time.Time, waiting []waitingSite) string {
	var first *waitingSite
	more := 0
	for i := range waiting {
		one := &waiting[i]
		if now.Sub(one.since) < holdShown {
			continue
		}
		if more++; first == nil || one.since.Before(first.since) {
			first = one
		}
	}
	h.unsaid = first != nil && (h.unsaid || !h.holding)
	if h.holding = first != nil; !h.holding {
		return ""
	}
	text := fmt.Sprintf("abide holds %s to %s %s", amount(first.held, "request"), first.site, first.until)
	if more > 1 {
		text += fmt.Sprintf("; and to %s", amount(more-1, "other site"))
	}
	switch {
	case h.terminal && more == 1 && first.held == 1 && !first.goes.IsZero() && first.goes.Sub(now) <= holdLookEvery:
		return "" // erased before the command goes on and writes behind it
	case h.terminal:
		return text
	case !h.unsaid || now.Before(h.next):
		return ""
	}
	h.unsaid, h.next = false, now.Add(holdLineEvery)
	return text
}

// reportHolds tells of requests that are held until ctx is done: in the terminal's
// status line, or in the log, unless that tells of them anyway.
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
		text := report.look(now, a.waitingSites(now))
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
		list = append(list, waitingSite{one.Site, one.Held, one.Since, proxy.HeldUntil(now, one.Keeps), one.Until})
	}
	return list
}
