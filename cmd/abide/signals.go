package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals are those that serve lives with. The first SIGINT or SIGTERM stops
// gently, the second at once; SIGHUP reads the configuration again; SIGPIPE, of
// a log that nobody reads any more, does nothing.
type signals struct {
	stop   context.Context // done after the first
	again  chan os.Signal  // the second
	reload chan struct{}   // one value for any number of SIGHUPs in a row

	arriving chan os.Signal
	end      context.CancelFunc
	closing  chan struct{}
	running  sync.WaitGroup
}

// catchSignals takes over from the moment it is called: a SIGHUP that arrives
// while abide starts must not end it.
func catchSignals(ctx context.Context) *signals {
	stop, end := context.WithCancel(ctx)
	s := &signals{
		stop: stop, end: end,
		again:    make(chan os.Signal, 1),
		reload:   make(chan struct{}, 1),
		arriving: make(chan os.Signal, 8),
		closing:  make(chan struct{}),
	}
	// SIGPIPE is caught, not ignored: what is ignored stays so in a child.
	signal.Notify(s.arriving, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
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

// close ends the listening. The signals stay caught: the process exits next, and
// a SIGHUP that arrives meanwhile must not make it end in another way.
func (s *signals) close() {
	close(s.closing)
	s.running.Wait()
	s.end()
}

// statusOf is what a shell shows for a process that a signal ended.
func statusOf(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
