package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/proxy/sitelog"
)

// Exit statuses of a shell for a command that cannot be started.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// findCommand finds the command's program before anything is started.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", notStarted(name, err)
}

func notStarted(name string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var why *exec.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	return &exit{code: code, err: fmt.Errorf("running %s: %w", name, err)}
}

// statusOfChild is the exit status of a command that has ended.
func statusOfChild(name string, child *exec.Cmd, err error) error {
	state := child.ProcessState
	if state == nil {
		return notStarted(name, err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exit{code: statusOf(status.Signal())}
	}
	if code := state.ExitCode(); code != 0 {
		return &exit{code: code}
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// runChild starts a command and waits for its end.
func runChild(child *exec.Cmd, caught *childSignals) error {
	// The kernel ends the command with the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	group := groupFor(child)
	if err := child.Start(); err != nil {
		return err
	}
	caught.forward(child.Process, group)
	return child.Wait()
}

// childSignals forwards signals to a command.
type childSignals struct {
	arriving chan os.Signal
	closing  chan struct{}
	running  sync.WaitGroup
}

// catchForChild catches signals from now on. They wait until forward is called.
func catchForChild() *childSignals {
	s := &childSignals{arriving: make(chan os.Signal, 64), closing: make(chan struct{})}
	signal.Notify(s.arriving, append(slices.Clone(forwardedSignals), syscall.SIGPIPE)...)
	return s
}

// forward sends the signals that have come, and later ones, to the command.
func (s *childSignals) forward(child *os.Process, group childGroup) {
	if more := group.jobSignals(); len(more) > 0 {
		signal.Notify(s.arriving, more...)
	}
	s.running.Go(func() {
		var seen repeats
		for {
			select {
			case <-s.closing:
				return
			case sig := <-s.arriving:
				if !seen.again(sig, time.Now()) {
					group.forward(child, sig)
				}
			}
		}
	})
}

// sameSignal is the time within which two equal signals count as one: timeout(1) sends its
// signal to abide, and then to abide's group. A command such as Scrapy stops without
// finishing when it gets a second signal.
const sameSignal = 100 * time.Millisecond

// repeats holds the time at which each signal came last.
type repeats map[os.Signal]time.Time

// again tells whether a signal that ends a command repeats one within sameSignal.
func (r *repeats) again(sig os.Signal, now time.Time) bool {
	if sig != syscall.SIGTERM && sig != syscall.SIGINT && sig != syscall.SIGHUP && sig != syscall.SIGQUIT {
		return false
	}
	if *r == nil {
		*r = repeats{}
	}
	last, known := (*r)[sig]
	(*r)[sig] = now
	return known && now.Sub(last) < sameSignal
}

// close stops forwarding. The signals stay caught, so that abide ends with the command's
// status whatever signal comes.
func (s *childSignals) close() {
	close(s.closing)
	s.running.Wait()
}

const (
	// holdShown is the time that a request of the command must have waited to be reported.
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
