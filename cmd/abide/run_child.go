package main

import (
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

// repeats is when each signal came last.
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
