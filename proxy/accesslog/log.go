package accesslog

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/signal"
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
	process *logrus.Logger // the log of the process
	lines   chan entry
	Reopen  signal.Signal // closes the file: the next line opens it again, by its name
	Dropped atomic.Uint64 // lines that were not written
}

type entry struct {
	Line
	to Target
}

// New makes a Log that writes nothing yet. logger is the log of the process.
func New(logger *logrus.Logger) *Log {
	return &Log{process: logger, lines: make(chan entry, queued), Reopen: signal.New()}
}

// Add queues a line. If the queue is full, the line is dropped and counted.
func (l *Log) Add(line Line, to Target) {
	if to.To == Off {
		return
	}
	select {
	case l.lines <- entry{line, to}:
	default:
		l.Dropped.Add(1)
	}
}

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
	select {
	case <-done:
	case <-time.After(patience):
		l.process.Warn("lines of the access log cannot be written, so the last ones are lost")
	}
}

func (l *Log) write(ctx context.Context, w *writer) {
	for {
		select {
		case entry := <-l.lines:
			w.write(&entry)
		case <-l.Reopen:
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

// writer writes lines to where they go. One goroutine uses it.
type writer struct {
	log      *Log
	to       string   // what is open; "": nothing
	file     *os.File // nil: standard output
	out      *bufio.Writer
	unsent   uint64    // lines in out
	whole    int64     // the length of the file before these lines
	broken   bool      // what is written to may end in the middle of a line
	complain time.Time // when the log may have the next line about a file
}

// write writes one line, to what it says.
func (w *writer) write(item *entry) {
	if item.to.To == WithLog {
		w.withLog(&item.Line)
		return
	}
	if w.to != item.to.To {
		w.close()
		if err := w.open(item.to.To); err != nil {
			w.failed(1, item.to.To, err)
			return
		}
	}
	text := item.json()
	if item.to.Text {
		text = item.text()
	}
	if w.unsent == 0 {
		w.whole, _ = w.file.Seek(0, io.SeekEnd) // fails where nothing can be taken back: a pipe, standard output
	}
	w.unsent++
	if _, err := w.out.Write(text); err != nil {
		w.lost(err)
	}
}

// open opens a file, or standard output.
func (w *writer) open(to string) error {
	out := io.Writer(os.Stdout)
	if to != Stdout {
		file, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		w.file, out = file, file
	}
	w.to, w.out = to, bufio.NewWriterSize(out, 64<<10)
	if w.broken {
		_ = w.out.WriteByte('\n') // the error is that of the next write
		w.broken = false
	}
	return nil
}

// flush writes what is buffered.
func (w *writer) flush() {
	if w.out == nil {
		return
	}
	if err := w.out.Flush(); err != nil {
		w.lost(err)
		return
	}
	w.unsent = 0
}

// lost counts what is buffered as dropped, takes back the part of it that was written, and closes the file.
func (w *writer) lost(err error) {
	w.failed(w.unsent, w.to, err)
	w.broken, w.unsent, w.out = w.file.Truncate(w.whole) != nil, 0, nil
	w.close()
}

// close writes what is buffered and closes the file.
func (w *writer) close() {
	w.flush()
	if w.file != nil {
		_ = w.file.Close() // all of it was written
	}
	w.to, w.file, w.out = "", nil, nil
}

func (w *writer) failed(lines uint64, to string, err error) {
	w.log.Dropped.Add(lines)
	if now := time.Now(); now.After(w.complain) {
		w.complain = now.Add(complaint)
		w.log.process.WithField("reason", err).Errorf("the access log cannot be written to %s, so its lines are lost: %v", to, err)
	}
}

// withLog writes a line with the log of the process.
func (w *writer) withLog(l *Line) {
	end, fields := l.End, logrus.Fields{}
	for _, f := range l.fields() {
		fields[f.name] = f.value
	}
	w.log.process.WithTime(end).WithFields(fields).Info(l.Message)
}

// Inspect is why a file could not be written, as far as that is known without opening it.
func Inspect(to string) error {
	if to == Off || to == WithLog || to == Stdout {
		return nil
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		return fmt.Errorf("log.access: %s is a directory; name a file in it", to)
	}
	dir := filepath.Dir(to)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("log.access: there is no directory %s; make it, or name another file", dir)
	}
	return nil
}
