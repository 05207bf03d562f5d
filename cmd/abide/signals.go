package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// signals are the signals that serve handles. The first SIGINT or SIGTERM ends abide after
// its requests, the second at once. SIGHUP reloads the configuration, SIGUSR1 opens the access
// log again. SIGPIPE, of a log without a reader, does nothing.
type signals struct {
	stop   context.Context // done after the first SIGINT or SIGTERM
	again  chan os.Signal  // receives the second
	reload chan struct{}   // one value for any number of SIGHUPs in a row

	reopen atomic.Pointer[func()] // opens the access log again; nil: there is none yet

	arriving chan os.Signal
	end      context.CancelFunc
	closing  chan struct{}
	running  sync.WaitGroup
}

// catchSignals catches signals from now on: a SIGHUP that comes while abide starts must not
// end it.
func catchSignals(ctx context.Context) *signals {
	stop, end := context.WithCancel(ctx)
	s := &signals{
		stop: stop, end: end,
		again:    make(chan os.Signal, 1),
		reload:   make(chan struct{}, 1),
		arriving: make(chan os.Signal, 8),
		closing:  make(chan struct{}),
	}
	// SIGPIPE is caught and not ignored: a child inherits ignored signals.
	signal.Notify(s.arriving, append(reopenSignals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)...)
	s.running.Go(func() {
		for {
			select {
			case sig := <-s.arriving:
				s.take(sig)
			case <-s.closing:
				return
			}
		}
	})
	return s
}

func (s *signals) take(sig os.Signal) {
	if slices.Contains(reopenSignals, sig) {
		if reopen := s.reopen.Load(); reopen != nil {
			(*reopen)()
		}
		return
	}
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		select {
		case s.reload <- struct{}{}:
		default:
		}
	default:
		if s.stop.Err() == nil {
			s.end()
			return
		}
		select {
		case s.again <- sig:
		default:
		}
	}
}

// close ends the handling. The signals stay caught: the process exits next, and a SIGHUP
// that comes meanwhile must not change the exit status.
func (s *signals) close() {
	close(s.closing)
	s.running.Wait()
	s.end()
}

// statusOf is the exit status that a shell shows for a process that a signal ended.
func statusOf(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
