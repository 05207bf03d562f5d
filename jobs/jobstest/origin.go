// Package jobstest is an origin for tests of jobs: an http.Handler whose answers have pages, in
// each style of pagination and with each fault at their ends. It counts what was asked.
//
//	o := jobstest.New(jobstest.Options{Style: jobfile.CursorPages, Records: 95, Size: 10})
//	server := httptest.NewServer(o)
//	job := jobfile.Job{Request: jobfile.Request{URL: server.URL + o.Path("{date}")},
//		Paginate: o.Pagination(), Records: "data", ID: []string{"id"}}
//
// The IDs of the records of a unit are UNIT-0 to UNIT-94.
package jobstest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// End is a fault of an origin.
type End string

// Faults of origins.
const (
	Honest       End = ""
	Repeats      End = "repeats"        // the second page leads to itself; pages that are counted repeat the first one
	Shrinks      End = "shrinks"        // half a page of records vanishes from the begin when the first page was read
	EmptyMiddle  End = "empty middle"   // the second page is empty, and others follow
	OtherHost    End = "other host"     // the URL of the second page is at Elsewhere
	TotalTooHigh End = "total too high" // by one page
	TotalTooLow  End = "total too low"  // it is that of the first page
)

// Options say what an origin does. The zero value of each but Style, Records and Size is an
// origin without it.
type Options struct {
	Style     string // as in policy, not auto
	Records   int    // of each unit
	Size      int    // of a page, also if more is asked for
	Header    string // of the style cursor: the header that has the cursor, in place of the body
	Total     bool   // answers have the total
	End       End
	Elsewhere string // scheme and host

	Quota    int           // requests in a Window; more are answered with 429
	Window   time.Duration // 0: a day
	Now      func() time.Time
	Failures float64       // part of requests that are answered with 500, or whose answer breaks off
	Seed     uint64        // of failures
	Slow     time.Duration // before each answer
}

// Ask names the page that a request asks for.
type Ask struct {
	Unit string
	From int // position of the first record
}

// Origin is an http.Handler. It is safe for concurrent use.
type Origin struct {
	options Options

	mu      sync.Mutex
	random  *rand.Rand
	begun   time.Time // the window
	used    int       // requests in the window
	asked   map[Ask]int
	served  map[Ask]int
	refused int
}

// New is an origin.
func New(o Options) *Origin {
	if o.Window == 0 {
		o.Window = 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Origin{options: o, random: rand.New(rand.NewPCG(o.Seed, 13)), asked: map[Ask]int{}, served: map[Ask]int{}}
}

// Path is path and query of the first page of a unit.
func (o *Origin) Path(unit string) string { return "/records?unit=" + unit }

// Pagination returns the pagination that a job for the origin has.
func (o *Origin) Pagination() jobfile.Pagination {
	p := jobfile.Pagination{Style: o.options.Style, MaxPages: 100_000}
	switch p.Style {
	case jobfile.OffsetPages:
		p.Param, p.SizeParam, p.Size = "offset", "limit", o.options.Size
	case jobfile.PagePages:
		p.Param, p.First, p.SizeParam, p.Size = "page", 1, "limit", o.options.Size
	case jobfile.CursorPages:
		p.Param, p.Header = "cursor", o.options.Header
		if p.Header == "" {
			p.Next = "next"
		}
	case jobfile.NextPages:
		p.Next = "next"
	}
	if o.total() {
		p.Total = "total"
	}
	if o.options.End == EmptyMiddle && (p.Style == jobfile.OffsetPages || p.Style == jobfile.PagePages) {
		p.More = "more"
	}
	return p
}

// IDs are the IDs of the records of a unit.
func (o *Origin) IDs(unit string) []string {
	ids := make([]string, o.options.Records)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", unit, i)
	}
	return ids
}

// Asked counts the requests for each page, with those that failed.
func (o *Origin) Asked() map[Ask]int { return o.copied(o.asked) }

// Served counts the answers with 200 of each page, as far as the origin knows.
func (o *Origin) Served() map[Ask]int { return o.copied(o.served) }

func (o *Origin) copied(m map[Ask]int) map[Ask]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(m)
}

// Again counts the answers with 200 for pages that had been served before.
func (o *Origin) Again() (n int) {
	for _, times := range o.Served() {
		n += times - 1
	}
	return n
}

// Refused counts the requests that were answered with 429.
func (o *Origin) Refused() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused
}

func (o *Origin) total() bool {
	return o.options.Total || o.options.End == TotalTooHigh || o.options.End == TotalTooLow
}

// ServeHTTP answers a request.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	from, err := o.from(query)
	unit := query.Get("unit")
	if err != nil || unit == "" || from < 0 {
		http.Error(w, `{"error":"there is no such page"}`, http.StatusBadRequest)
		return
	}
	if o.options.Slow > 0 {
		select {
		case <-time.After(o.options.Slow):
		case <-r.Context().Done():
			return
		}
	}
	ask := Ask{unit, from}
	fails, breaks, refused := o.count(ask, w.Header())
	switch {
	case refused:
		http.Error(w, `{"error":"too many requests"}`, http.StatusTooManyRequests)
	case fails:
		http.Error(w, `{"error":"the server is ill"}`, http.StatusInternalServerError)
	default:
		header, body := o.page(r.Host, unit, from)
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if breaks {
			_, _ = w.Write(body[:len(body)/2]) // the client is gone if it fails
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		o.mu.Lock()
		o.served[ask]++
		o.mu.Unlock()
		_, _ = w.Write(body)
	}
}

// count counts a request, and says what becomes of it.
func (o *Origin) count(ask Ask, h http.Header) (fails, breaks, refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.options.Quota > 0 {
		now := o.options.Now()
		if o.begun.IsZero() || now.Sub(o.begun) >= o.options.Window {
			o.begun, o.used = now, 0
		}
		reset := strconv.Itoa(int((o.begun.Add(o.options.Window).Sub(now) + time.Second - 1) / time.Second))
		refused = o.used >= o.options.Quota
		if refused {
			h.Set("Retry-After", reset)
			o.refused++
		} else {
			o.used++
		}
		h.Set("X-RateLimit-Limit", strconv.Itoa(o.options.Quota))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(o.options.Quota-o.used))
		h.Set("X-RateLimit-Reset", reset)
		if refused {
			return false, false, true
		}
	}
	o.asked[ask]++
	if o.random.Float64() < o.options.Failures {
		fails = o.random.IntN(2) == 0
		breaks = !fails
	}
	return fails, breaks, false
}

// from is the position that a request asks for.
func (o *Origin) from(query url.Values) (int, error) {
	name := map[string]string{jobfile.OffsetPages: "offset", jobfile.PagePages: "page", jobfile.CursorPages: "cursor"}[o.options.Style]
	if name == "" {
		name = "from"
	}
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	if o.options.Style == jobfile.CursorPages {
		var n int
		_, err := fmt.Sscanf(text, "behind %d+&=", &n)
		return n, err
	}
	n, err := strconv.Atoi(text)
	if o.options.Style == jobfile.PagePages {
		n = (n - 1) * o.options.Size
	}
	return n, err
}
