package accesslog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Places that are no files.
const (
	Off     = ""       // nothing is written
	WithLog = "on"     // with the log of the process, as it is formatted
	Stdout  = "stdout" // standard output
)

// Target is the destination of lines.
type Target struct {
	To   string // Off, WithLog, Stdout or the path of a file
	Text bool   // name=value pairs in place of JSON; of WithLog, the log decides
}

const (
	// queued bounds the lines that wait to be written. Further lines are dropped.
	queued = 4096
	// patience bounds the time for which Run, at its end, waits for lines to be written: a pipe may
	// have no reader.
	patience = 2 * time.Second
	// complaint is the least time between two lines of the log about a file.
	complaint = time.Minute
)

// Log writes lines on a goroutine of its own. Make it with New, and call Run.
type Log struct {
	own     *logrus.Logger
	lines   chan entry
	reopen  chan struct{}
	dropped atomic.Uint64
}

type entry struct {
	Line
	to Target
}

// New is a Log that writes nothing yet. own is the log of the process.
func New(logger *logrus.Logger) *Log {
	return &Log{own: logger, lines: make(chan entry, queued), reopen: make(chan struct{}, 1)}
}

// Add queues a line. If the queue is full, the line is dropped and counted.
func (l *Log) Add(line Line, to Target) {
	if to.To == Off {
		return
	}
	select {
	case l.lines <- entry{line, to}:
	default:
		l.dropped.Add(1)
	}
}

// Reopen closes the file. The next line opens it again, by its name.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default:
	}
}

// Dropped returns the number of lines that were not written.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Run writes until ctx is done and the queue is empty.
func (l *Log) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := &writer{log: l}
		defer w.close()
		l.write(ctx, w)
	}()
	<-ctx.Done()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		l.own.Warn("lines of the access log cannot be written, so the last ones are lost")
	}
}

func (l *Log) write(ctx context.Context, w *writer) {
	for {
		select {
		case entry := <-l.lines:
			w.write(&entry)
		case <-l.reopen:
			w.close()
		case <-ctx.Done():
			for len(l.lines) > 0 {
				entry := <-l.lines
				w.write(&entry)
			}
			return
		}
		if len(l.lines) == 0 {
			w.flush()
		}
	}
}
