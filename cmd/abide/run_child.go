package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// What a shell shows for a command that it cannot start.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// find looks the command up before anything is started for it.
func find(name string) (string, error) {
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

// statusOfChild passes on how the command ended.
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

// childSignals passes signals on to a command.
type childSignals struct {
	arriving chan os.Signal
	closing  chan struct{}
	running  sync.WaitGroup
}

// catchForChild takes the signals from now on; until forward they wait.
func catchForChild() *childSignals {
	s := &childSignals{arriving: make(chan os.Signal, 16), closing: make(chan struct{})}
	signal.Notify(s.arriving, append(slices.Clone(passed), syscall.SIGPIPE)...)
	return s
}

func (s *childSignals) forward(child *os.Process) {
	s.running.Go(func() {
		for {
			select {
			case <-s.closing:
				return
			case sig := <-s.arriving:
				// The terminal has given it to the command already: twice would
				// make Scrapy, for one, stop without finishing.
				if sig != syscall.SIGPIPE && !fromTerminal(sig) {
					_ = child.Signal(sig) // it may have ended
				}
			}
		}
	})
}

// close ends the passing on. The signals stay caught, so that abide ends with
// the command's status whatever arrives meanwhile.
func (s *childSignals) close() {
	close(s.closing)
	s.running.Wait()
}
