package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// events sends what changes as server-sent events. One goroutine makes a snapshot each second
// for all readers, as long as there are readers. Each reader has room for one snapshot, which
// the next replaces.
type events struct {
	facts  func(ctx context.Context, now time.Time, isNew bool) *page.Facts
	policy func() *policy.Policy
	log    *logrus.Logger

	mu      sync.Mutex
	readers map[chan *snapshot]bool // at most maxReaders
	last    *snapshot               // nil without readers
	stop    func()                  // ends the goroutine and waits for its end; nil without readers
}

// add adds a reader, if there is room. leave has to be called when the reader leaves.
func (e *events) add() (reader chan *snapshot, leave func(), ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.readers) >= maxReaders {
		return nil, nil, false
	}
	reader = make(chan *snapshot, 1)
	if e.last != nil {
		reader <- e.last
	}
	if e.readers == nil {
		e.readers = map[chan *snapshot]bool{}
	}
	e.readers[reader] = true
	if e.stop == nil {
		e.stop = e.start()
	}
	return reader, func() { e.remove(reader) }, true
}

// start starts the goroutine.
func (e *events) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.produce(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// remove removes a reader. The last one ends the goroutine.
func (e *events) remove(reader chan *snapshot) {
	e.mu.Lock()
	delete(e.readers, reader)
	stop := func() {}
	if len(e.readers) == 0 {
		stop, e.stop, e.last = e.stop, nil, nil
	}
	e.mu.Unlock()
	stop()
}

// produce makes snapshots until ctx is done.
func (e *events) produce(ctx context.Context) {
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		if snapshot := e.snapshot(ctx, time.Now()); snapshot != nil {
			e.send(snapshot)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send gives each reader a snapshot, in place of one that the reader has not taken.
func (e *events) send(item *snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.readers) > 0 {
		e.last = item
	}
	for reader := range e.readers {
		select {
		case <-reader:
		default:
		}
		reader <- item
	}
}

// snapshot returns everything as of now, nil where a fault of abide's prevents it.
func (e *events) snapshot(ctx context.Context, now time.Time) (s *snapshot) {
	defer caught(e.log, "make an event", func() { s = nil })
	f := e.facts(ctx, now, false)
	parts, err := page.Parts(f, now)
	if err != nil {
		panic(err)
	}
	return &snapshot{facts: f, at: now, now: eventOf("now", liveOf(f, now)), parts: parts}
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
func (e *events) stream(w http.ResponseWriter, r *http.Request) {
	query, ok := queryOf(w, r, "site", "count")
	if !ok {
		return
	}
	count, err := numberOf(query, "count", mostEvents, 1, mostEvents)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	reader, leave, ok := e.add()
	if !ok {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "events have "+strconv.Itoa(maxReaders)+" readers, and there is no room for more")
		return
	}
	defer leave()
	to := &eventWriter{w: w, to: w, control: http.NewResponseController(w), filter: query.Get("site"), sent: map[string]string{}}
	if to.begin(strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")) != nil {
		return
	}
	token := e.policy().Admin.Token
	for range count {
		select {
		case <-r.Context().Done():
			return
		case <-endingOf(r):
			return
		case snapshot := <-reader:
			// After a reload the token may be another, so the reader has to show it again.
			if e.policy().Admin.Token != token || to.write(snapshot) != nil {
				return
			}
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
		var err error
		if parts, err = page.Parts(&facts, s.at); err != nil {
			return err
		}
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
