package plan

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

const (
	// mostLogged is the largest number of requests of a log: about 100 bytes for each.
	mostLogged = 5_000_000
	// mostPlaces is the largest number of URLs and clients of a log that are told apart. Further URLs have the
	// path "/".
	mostPlaces = 1_000_000
	// mostMethods is the same of methods.
	mostMethods = 256
	// longestLine is the length of the longest line, in bytes.
	longestLine = 1 << 20
)

// Log is the requests of an access log, in the order in which they came. It is only read
// after ReadLog.
type Log struct {
	records []record
	places  []place
	clients []string
	methods []string

	Requests   int       // that are replayed
	Left       int       // lines of requests that were not sent to a site, or are tunnels
	Other      int       // lines that are about something else
	Unreadable int       // lines
	First      error     // why the first of them is unreadable, with its number; nil: none
	Began      time.Time // when the first request came
	Ended      time.Time // when the last was answered
}

// record is a request of a log.
type record struct {
	began    time.Duration // after Log.Began
	took     time.Duration
	latency  time.Duration
	bytes    int64
	pause    time.Duration // between the answer before and this request
	next     int32         // the request of the same crawler that follows; -1: none
	place    uint32
	client   uint32
	method   uint8
	priority int8 // -1: not said
	first    bool // of its crawler
}

// ReadLog reads an access log in JSON lines.
func ReadLog(ctx context.Context, from io.Reader) (*Log, error) {
	b := newLogReader()
	in := bufio.NewReaderSize(from, longestLine)
	for number := 1; ; number++ {
		text, err := in.ReadSlice('\n')
		for long := err; errors.Is(long, bufio.ErrBufferFull); { // the rest of a long line
			_, long = in.ReadSlice('\n')
		}
		if fault := b.add(text, err); fault != nil {
			b.log.Unreadable++
			b.log.First = cmp.Or(b.log.First, fmt.Errorf("line %d %w", number, fault))
		}
		switch {
		case len(b.log.records) > mostLogged:
			return nil, fmt.Errorf("line %d: the log has more than %d requests; plan with a part of it", number, mostLogged)
		case errors.Is(err, io.EOF):
			return b.finish()
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case number%1024 == 0 && ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// logReader makes a Log.
type logReader struct {
	log     *Log
	starts  []time.Time       // of the records
	places  map[string]uint32 // :: as the log writes it → index in Log.places
	clients map[string]uint32
	methods map[string]uint32
}

func newLogReader() *logReader {
	return &logReader{log: &Log{}, places: map[string]uint32{}, clients: map[string]uint32{}, methods: map[string]uint32{}}
}

// add adds a line. The error says why it is unreadable.
func (b *logReader) add(text []byte, read error) error {
	text = bytes.TrimSpace(text)
	switch {
	case errors.Is(read, bufio.ErrBufferFull):
		return fmt.Errorf("is longer than %d bytes", longestLine)
	case len(text) == 0:
		return nil
	}
	l, err := readLine(text)
	switch {
	case errors.Is(err, errOtherLine):
		b.log.Other++
	case err != nil:
		return err
	case l.unsent():
		b.log.Left++
	default:
		return b.record(&l)
	}
	return nil
}

// record adds the request of a line.
func (b *logReader) record(l *line) error {
	at, err := b.placeOf(l)
	if err != nil {
		return err
	}
	method := indexOf(&b.log.methods, b.methods, l.Method, mostMethods)
	r := record{took: l.took(), latency: l.latency(), bytes: l.Received + l.Sent, next: -1, place: at, client: indexOf(&b.log.clients, b.clients, l.Client, mostPlaces), method: uint8(method), priority: -1}
	if l.Priority != nil {
		r.priority = int8(*l.Priority)
	}
	began := l.Time.Add(-r.took)
	if b.log.Began.IsZero() || began.Before(b.log.Began) {
		b.log.Began = began
	}
	b.log.Ended = status.Later(b.log.Ended, l.Time)
	b.log.records, b.starts = append(b.log.records, r), append(b.starts, began)
	return nil
}

// placeOf is the index of the place of a line.
func (b *logReader) placeOf(l *line) (uint32, error) {
	if i, known := b.places[l.URL]; known {
		return i, nil
	}
	p, err := l.place()
	if err != nil {
		return 0, err
	}
	name := l.URL
	if len(b.log.places) >= mostPlaces {
		p = newPlace(p.target, "/")
		name = p.url.String()
		if i, known := b.places[name]; known {
			return i, nil
		}
	}
	b.places[name] = uint32(len(b.log.places))
	b.log.places = append(b.log.places, *p)
	return b.places[name], nil
}

// indexOf is the index of a name in a list, to which it is added. Where the list is full it is that of the last.
func indexOf(list *[]string, known map[string]uint32, name string, most int) uint32 {
	i, there := known[name]
	if !there && len(*list) < most {
		i, there = uint32(len(*list)), true
		known[name], *list = i, append(*list, name)
	}
	if !there {
		return uint32(most - 1)
	}
	return i
}

// finish puts the requests in order.
func (b *logReader) finish() (*Log, error) {
	log := b.log
	log.Requests = len(log.records)
	if log.Requests == 0 {
		return nil, log.empty()
	}
	for i := range log.records {
		log.records[i].began = b.starts[i].Sub(log.Began)
	}
	slices.SortStableFunc(log.records, func(a, b record) int { return cmp.Compare(a.began, b.began) })
	log.findCrawlers()
	return log, nil
}

// empty is why there is nothing to replay.
func (l *Log) empty() error {
	text := `it has no request to replay; "abide serve --log-access" with log.format: json writes an access log`
	if l.First != nil {
		return fmt.Errorf("%s: %w", text, l.First)
	}
	if l.Left > 0 {
		return fmt.Errorf("%s: lines of requests that were tunnels, or were not sent to any site: %d", text, l.Left)
	}
	return errors.New(text)
}

// longestPause is the longest pause between two requests of one crawler. After a longer one
// a crawler begins anew, at its own time: it was started by something else than an answer.
const longestPause = 10 * time.Minute

// findCrawlers finds out which requests one crawler has sent, one after the other: each
// request follows the request of its client that was answered last before it came, and that
// no other request follows.
func (l *Log) findCrawlers() {
	ended := make([]int32, len(l.records)) // the records by when they were answered
	for i := range ended {
		ended[i] = int32(i)
	}
	slices.SortFunc(ended, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.records[a].end(), l.records[b].end()), cmp.Compare(a, b))
	})
	free := map[uint32][]*record{} // :: client → what was answered and no other follows, in the order of the answers
	for i := range l.records {
		r := &l.records[i]
		for ; ended[0] < int32(i) && l.records[ended[0]].end() <= r.began; ended = ended[1:] {
			before := &l.records[ended[0]]
			free[before.client] = append(free[before.client], before)
		}
		waiting := free[r.client]
		if len(waiting) == 0 || r.began-waiting[len(waiting)-1].end() > longestPause {
			r.first, waiting = true, nil
		} else {
			before := waiting[len(waiting)-1]
			before.next, r.pause, waiting = int32(i), r.began-before.end(), waiting[:len(waiting)-1]
		}
		free[r.client] = waiting
	}
}

func (r *record) end() time.Duration { return r.began + r.took }

// line is a line of the access log, with what a plan needs of it.
type line struct {
	Message  string    `json:"msg"`
	Time     time.Time `json:"time"` // of the end
	Client   string    `json:"client"`
	Priority *int      `json:"priority"`
	Method   string    `json:"method"`
	URL      string    `json:"url"`    // without the query
	Target   string    `json:"target"` // in place of url: scheme, host and port
	Took     float64   `json:"ms"`     // from begin to end
	Wait     float64   `json:"wait"`   // seconds of it that abide held the request
	Attempts *int      `json:"attempts"`
	Received int64     `json:"received"`
	Sent     int64     `json:"sent"`
}

// longestTook is the longest time that a request of a log can have taken.
const longestTook = 30 * 24 * time.Hour

// errOtherLine is for a line that is about something else than a request.
var errOtherLine = errors.New("is not about a request")

// readLine reads a line of the access log.
func readLine(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("is not JSON with the fields of the access log: %w", err)
	}
	l.URL = cmp.Or(l.URL, l.Target)
	switch {
	case l.URL == "" && l.Message != "" && l.Message != "request":
		return l, errOtherLine
	case l.Time.IsZero():
		return l, errors.New("has no time")
	case l.URL == "":
		return l, errors.New("has neither url nor target")
	case l.Method == "":
		return l, errors.New("has no method")
	case !(l.Took >= 0 && l.Took <= float64(longestTook.Milliseconds())):
		return l, fmt.Errorf("has ms: %v, which is no time that a request can take", l.Took)
	case !(l.Wait >= 0 && l.Wait <= longestTook.Seconds()):
		return l, fmt.Errorf("has wait: %v, which is no time that a request can wait", l.Wait)
	case l.Priority != nil && (*l.Priority < 0 || *l.Priority > 7):
		return l, fmt.Errorf("has priority: %d, which is not 0 to 7", *l.Priority)
	case l.Received < 0 || l.Sent < 0 || l.Received > math.MaxInt64/2 || l.Sent > math.MaxInt64/2:
		return l, errors.New("has a number of bytes below 0")
	}
	return l, nil
}

// unsent tells whether nothing of the line went to a site, or not by requests that abide
// sees.
func (l *line) unsent() bool {
	return l.Method == http.MethodConnect || l.Attempts != nil && *l.Attempts == 0
}

// took returns the time from begin to end of the request, to the nanosecond.
func (l *line) took() time.Duration { return time.Duration(l.Took * float64(time.Millisecond)) }

// latency returns the time that the site took for one attempt.
func (l *line) latency() time.Duration {
	attempts := 1
	if l.Attempts != nil {
		attempts = max(*l.Attempts, 1)
	}
	return max(l.took()-time.Duration(l.Wait*float64(time.Second)), 0) / time.Duration(attempts)
}

// place returns the target and URL of the request.
func (l *line) place() (*place, error) {
	u, err := url.Parse(l.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("has a url that is none") // the error repeats it
	}
	t, err := policy.ParseTarget(strings.ToLower(u.Scheme), u.Host)
	if err != nil {
		return nil, fmt.Errorf("has a url that is none: %w", err)
	}
	path := cmp.Or(u.EscapedPath(), "/")
	return newPlace(t, path), nil
}

// place is the target and URL of a request.
type place struct {
	target policy.Target
	url    url.URL
}

// newPlace is the place of a target and an escaped path.
func newPlace(t policy.Target, path string) *place {
	p := &place{target: t, url: url.URL{Scheme: t.Scheme, Host: t.HostPort(), Path: path}}
	if t.UsualPort() {
		p.url.Host = t.Host
	}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		p.url.Path, p.url.RawPath = plain, path
	}
	return p
}
