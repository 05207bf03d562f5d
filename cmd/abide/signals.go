package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	wake "github.com/abide-proxy/abide/internal/signal"
)

// signals are the signals that serve handles. The first SIGINT or SIGTERM ends abide after
// its requests, one that comes sameSignal later ends it at once. SIGHUP reloads the configuration, SIGUSR1 opens the access
// log again. SIGPIPE, of a log without a reader, does nothing.
type signals struct {
	stop   context.Context // done after the first SIGINT or SIGTERM
	again  chan os.Signal  // receives the second
	reload wake.Signal     // one value for any number of SIGHUPs in a row

	reopen atomic.Pointer[func()] // opens the access log again; nil: there is none yet

	end context.CancelFunc
	*arrivals
}

// catchSignals catches signals from now on: a SIGHUP that comes while abide starts must not
// end it.
func catchSignals(ctx context.Context) *signals {
	stop, end := context.WithCancel(ctx)
	// SIGPIPE is caught and not ignored: a child inherits ignored signals.
	caught := append(reopenSignals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	s := &signals{stop: stop, end: end, again: make(chan os.Signal, 1), reload: wake.New(), arrivals: arrivalsOf(caught)}
	s.each(s.take)
	return s
}

// arrivals catches signals. Those that arrive before each is called wait until then.
type arrivals struct {
	arriving chan os.Signal
	closing  chan struct{}
	running  sync.WaitGroup
	repeats  repeats
}

// arrivalsOf catches some signals from now on.
func arrivalsOf(caught []os.Signal) *arrivals {
	a := &arrivals{arriving: make(chan os.Signal, 64), closing: make(chan struct{}), repeats: repeats{}}
	signal.Notify(a.arriving, caught...)
	return a
}

// each calls take for one signal after the other, until close.
func (a *arrivals) each(take func(sig os.Signal, now time.Time)) {
	a.running.Go(func() {
		for {
			select {
			case sig := <-a.arriving:
				take(sig, time.Now())
			case <-a.closing:
				return
			}
		}
	})
}

// close ends the handling. The signals stay caught: the process exits next, with the status that it has now
// whatever signal comes.
func (a *arrivals) close() {
	close(a.closing)
	a.running.Wait()
}

func (s *signals) take(sig os.Signal, now time.Time) {
	if slices.Contains(reopenSignals, sig) {
		if reopen := s.reopen.Load(); reopen != nil {
			(*reopen)()
		}
		return
	}
	switch sig {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		s.reload.Send()
	default:
		if s.repeats.again(sig, now) {
			return
		}
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

// repeats holds the time at which each signal came, without those that repeat it.
type repeats map[os.Signal]time.Time

// again tells whether a signal that ends a command repeats one within sameSignal.
func (r repeats) again(sig os.Signal, now time.Time) bool {
	if sig != syscall.SIGTERM && sig != syscall.SIGINT && sig != syscall.SIGHUP && sig != syscall.SIGQUIT {
		return false
	}
	if first, known := r[sig]; known && now.Sub(first) < sameSignal {
		return true
	}
	r[sig] = now
	return false
}

// close ends the handling, and what goes on until stop is done.
func (s *signals) close() {
	s.arrivals.close()
	s.end()
}

// childSignals forwards signals to a command. Those that come before forward is called wait until then.
type childSignals struct {
	*arrivals
	ending func(bySignal bool) // called when the command begins to end, for the first of its signals or without one
	asked  func(now time.Time) // called after each SIGINT or SIGTERM to the command
}

// forward sends the signals that have come, and later ones, to the command.
func (s *childSignals) forward(child *os.Process, group childGroup) {
	if more := group.jobSignals(); len(more) > 0 {
		signal.Notify(s.arriving, more...)
	}
	s.each(func(sig os.Signal, now time.Time) {
		ends := sig == syscall.SIGINT || sig == syscall.SIGTERM
		if ends {
			s.ending(true)
		}
		if s.repeats.again(sig, now) {
			return
		}
		group.forward(child, sig)
		if ends {
			s.asked(now)
		}
	})
}

// statusOf is the exit status that a shell shows for a process that a signal ended.
func statusOf(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}

// sameSignal is the time within which two equal signals count as one: timeout(1) sends its
// signal to abide, and then to abide's group. A command such as Scrapy stops without
// finishing when it gets a second signal, and serve cuts what is in flight.
const sameSignal = time.Second

// systemdTimeout bounds how long a message to systemd may take. The socket is on this
// machine, so only a systemd that hangs takes longer.
const systemdTimeout = time.Second

// systemd notifies the service manager of abide's state, by the protocol of sd_notify(3). A
// unit with Type=notify needs that. It is the address in $NOTIFY_SOCKET; "@" at its start is an abstract socket.
// One with another start, or "", does nothing.
type systemd string

// ready notifies that abide serves.
func (s systemd) ready(status string) { s.send("READY=1", "STATUS="+status) }

// send sends the lines as one datagram. abide serves whether or not the datagram arrives.
func (s systemd) send(lines ...string) {
	if s == "" || !strings.ContainsRune("/@", rune(s[0])) {
		return
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", " ")
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(s), Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(systemdTimeout))
	_, _ = conn.Write([]byte(strings.Join(lines, "\n")))
}
