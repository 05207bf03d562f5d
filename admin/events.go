package admin

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

const (
	// eventEvery is the time from one snapshot to the next.
	eventEvery = time.Second
	// eventTimeout is the time after which a reader that does not read is dropped.
	eventTimeout = 10 * time.Second
	// maxReaders is the largest number of readers of events at a time.
	maxReaders = 64
	// mostEvents is the largest number of snapshots that may be asked for.
	mostEvents = 1 << 30
)

// snapshot has everything at one time, as events. It is not changed after it is made.
type snapshot struct {
	facts *page.Facts
	at    time.Time
	now   []byte      // the event with numbers
	parts []page.Part // about all sites
}

// events sends what changes as server-sent events. A snapshot is for all readers: the first that needs one makes it.
type events struct {
	facts  func(ctx context.Context, now time.Time, isNew bool) *page.Facts
	policy func() *policy.Policy
	log    *logrus.Logger

	readers atomic.Int64 // at most maxReaders
	making  atomic.Bool  // a reader makes a snapshot
	last    atomic.Pointer[snapshot]
}

// latest returns the snapshot of this second, and the one before, or nil, while another reader makes it.
func (e *events) latest(ctx context.Context) *snapshot {
	if !e.making.CompareAndSwap(false, true) {
		return e.last.Load()
	}
	defer e.making.Store(false)
	last, now := e.last.Load(), time.Now()
	if last != nil && now.Sub(last.at) < eventEvery*3/4 {
		return last
	}
	if fresh := e.snapshot(ctx, now); fresh != nil {
		e.last.Store(fresh)
	}
	return e.last.Load()
}

// snapshot returns everything as of now, nil where a fault of abide's prevents it.
func (e *events) snapshot(ctx context.Context, now time.Time) (s *snapshot) {
	defer caught(e.log, "make an event", func() { s = nil })
	f := e.facts(ctx, now, false)
	return &snapshot{facts: f, at: now, now: eventOf("now", liveOf(f, now)), parts: page.Parts(f, now)}
}

// liveOf is the numbers that change most.
func liveOf(f *page.Facts, now time.Time) status.Live {
	l := status.Live{Time: now.UTC(), Rate: f.Samples.Total.Now, Waiting: min(len(f.Holds), status.MaxHolds)}
	for i := range f.Holds {
		l.Longest = max(l.Longest, f.Holds[i].Waited)
	}
	return l
}

// eventOf is an event. JSON has no line break.
func eventOf(name string, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(append([]byte("event: "+name+"\ndata: "), text...), "\n\n"...)
}

// stream answers with events until the reader leaves: ?count= of them, about the sites whose
// names have ?site=.
func (e *events) stream(w http.ResponseWriter, r *http.Request) (any, error) {
	query, err := queryOf(r, "site", "count")
	count, wrong := numberOf(query, "count", mostEvents, 1, mostEvents)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	defer func() {
		if e.readers.Add(-1) == 0 {
			e.last.Store(nil)
		}
	}()
	if e.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "5")
		return nil, because(http.StatusServiceUnavailable, "events have "+strconv.Itoa(maxReaders)+" readers, and there is no room for more")
	}
	to := &eventWriter{w: w, to: w, control: http.NewResponseController(w), filter: query.Get("site"), sent: map[string]string{}}
	if to.begin(strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")) != nil {
		return nil, nil
	}
	if compressor, ok := to.to.(*gzip.Writer); ok {
		defer compressor.Close() // a reader who is gone needs no end
	}
	token := e.policy().Admin.Token
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for sent := (time.Time{}); ; {
		if s := e.latest(context.WithoutCancel(r.Context())); s != nil && s.at.After(sent) {
			// After a reload the token may be another, so the reader has to show it again.
			if e.policy().Admin.Token != token || to.write(s) != nil {
				return nil, nil
			}
			if sent, count = s.at, count-1; count == 0 {
				return nil, nil
			}
		}
		select {
		case <-r.Context().Done():
			return nil, nil
		case <-endingOf(r):
			return nil, nil
		case <-tick.C:
		}
	}
}

// eventWriter writes snapshots to one reader.
type eventWriter struct {
	w       http.ResponseWriter
	to      io.Writer // w, or what compresses for it
	control *http.ResponseController
	filter  string
	sent    map[string]string // :: part → the HTML that was sent last
}

// begin says what is to come, compressed if the reader wants that. The server's timeouts are for short answers.
func (t *eventWriter) begin(compressed bool) error {
	_ = t.control.SetReadDeadline(time.Time{}) // as in extend
	t.w.Header().Set("Content-Type", "text/event-stream")
	t.w.Header().Set("X-Accel-Buffering", "no") // for nginx
	t.w.Header().Set("Vary", "Accept-Encoding")
	if compressed {
		t.w.Header().Set("Content-Encoding", "gzip")
		t.to = gzip.NewWriter(t.w)
	}
	t.w.WriteHeader(http.StatusOK)
	return t.flush()
}

// write writes the numbers, and the parts that have changed since the last snapshot.
func (t *eventWriter) write(s *snapshot) error {
	var b bytes.Buffer
	b.Write(s.now)
	parts := s.parts
	if t.filter != "" {
		facts := *s.facts
		facts.Filter = t.filter
		parts = page.Parts(&facts, s.at)
	}
	for _, part := range parts {
		if t.sent[part.Name] != part.HTML {
			b.Write(eventOf("part", part))
			t.sent[part.Name] = part.HTML
		}
	}
	t.extend()
	if _, err := t.to.Write(b.Bytes()); err != nil {
		return err
	}
	return t.flush()
}

// flush sends what was written.
func (t *eventWriter) flush() error {
	t.extend()
	if compressor, ok := t.to.(*gzip.Writer); ok {
		if err := compressor.Flush(); err != nil {
			return err
		}
	}
	return t.control.Flush()
}

// extend gives the reader time to read.
func (t *eventWriter) extend() {
	_ = t.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // without a deadline there is nothing to extend
}
