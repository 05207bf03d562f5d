package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// unsaid is a log that nobody reads.
func unsaid(string, ...any) {}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin answers requests as a test says. It is a Sender.
type origin struct {
	mu     sync.Mutex
	asked  map[string]int // :: URL →
	answer func(url string, nth int) (status int, header string)
	took   time.Duration // of each answer
	body   string        // "": {}
	begun  atomic.Int32  // requests
	rests  time.Duration // before each answer
}

func (o *origin) Close() {}

func (o *origin) Send(ctx context.Context, r *http.Request, options send.Options) (*http.Response, error) {
	o.begun.Add(1)
	if o.rests > 0 {
		options.Rest(true)
		err := clock.Sleep(ctx, o.rests)
		options.Rest(false)
		if err != nil {
			return nil, err
		}
	}
	if err := clock.Sleep(ctx, o.took); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	u := r.URL.String()
	o.asked[u]++
	code, header := 200, ""
	if o.answer != nil {
		code, header = o.answer(u, o.asked[u])
	}
	h := http.Header{}
	if name, value, ok := strings.Cut(header, ": "); ok {
		h.Set(name, value)
		h.Set("Retry-After", "30")
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(cmp.Or(o.body, twoPages(r.URL)))), Request: r}, nil
}

// twoPages is the body of a page of a unit that has two, with a record each.
func twoPages(u *url.URL) string {
	page := u.Query().Get("page")
	return fmt.Sprintf(`{"data": [{"id": "%s-%s"}], "has_more": %v}`, u.Path[1:], page, page == "0")
}

// count is how often an URL was asked.
func (o *origin) count(url string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[url]
}

func numbered(n int) iter.Seq2[output.Unit, error] {
	return func(yield func(output.Unit, error) bool) {
		for i := range n {
			if !yield(output.Unit{Key: fmt.Sprintf("u%d", i), Place: int64(i)}, nil) {
				return
			}
		}
	}
}

// newRun is a backfill of ten units with three workers.
func newRun(o *origin, m *memory) *Backfill {
	o.asked = map[string]int{}
	return New(Options{
		Job: &jobfile.Job{
			Name: "orders", Workers: 3, Tries: 5, Request: jobfile.Request{Method: "GET", URL: "http://api.test/{item}"}, Records: "data", ID: []string{"id"},
			Paginate: jobfile.Pagination{Style: jobfile.PagePages, Param: "page", More: "has_more"},
		},
		Output: m, Sender: o, Units: numbered(10), Log: unsaid, Warn: unsaid,
	})
}

func TestEveryUnitIsFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Second}, newMemory()
		b := newRun(o, m)
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobDone || s.Units.Done != 10 || len(m.records) != 20 || s.Pages != 20 {
			t.Errorf("%+v, %d records", s, len(m.records))
		}
		for u, n := range o.asked {
			if n != 1 {
				t.Errorf("%s was asked for %d times", u, n)
			}
		}
	})
}

// While requests wait before they are sent again, their workers ask for other units, but not for all units of a long job.
func TestAWorkerDoesNotWaitForTheNextTryOfARequest(t *testing.T) {
	for n, longest := range map[int]time.Duration{10: 33 * time.Second, 480: 240 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			o, m := &origin{took: time.Second / 10, rests: 10 * time.Second}, newMemory()
			b := newRun(o, m)
			b.options.Units = numbered(n)
			began, most := time.Now(), 0
			looking, stop := context.WithCancel(t.Context())
			go func() {
				for range clock.Ticks(looking, time.Second) {
					most = max(most, b.workers.underWay())
				}
			}()
			err := b.Run(t.Context())
			stop()
			synctest.Wait()
			if took := time.Since(began); err != nil || len(m.records) != 2*n || took > longest || most > mostResting*3 {
				t.Errorf("%d units: %v, %d records after %v, at most %d units at one time", n, err, len(m.records), took, most)
			}
		})
	}
}

func TestAFailedPageIsTriedAgainAtItsCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{}, newMemory()
		o.answer = func(u string, nth int) (int, string) {
			if strings.HasSuffix(u, "u3?page=1") && nth < 5 {
				return 500, ""
			}
			return 200, ""
		}
		b := newRun(o, m)
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobDone || len(m.records) != 20 {
			t.Errorf("%+v, %d records", s, len(m.records))
		}
		if first, second := o.count("http://api.test/u3?page=0"), o.count("http://api.test/u3?page=1"); first != 1 || second != 5 {
			t.Errorf("the first page was asked for %d times, the second %d times", first, second)
		}
	})
}

func TestAUnitThatFailsIsOverAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{}, newMemory()
		o.answer = func(u string, _ int) (int, string) {
			switch {
			case strings.Contains(u, "/u3"):
				return 500, ""
			case strings.Contains(u, "/u4"):
				return 404, ""
			}
			return 200, ""
		}
		b := newRun(o, m)
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobFailed || s.Units.Done != 8 || s.Units.Failed != 2 {
			t.Errorf("%+v", s)
		}
		if n := o.count("http://api.test/u3?page=0"); n != 5 {
			t.Errorf("a page that fails was asked for %d times", n)
		}
		if n := o.count("http://api.test/u4?page=0"); n != 1 {
			t.Errorf("a page that is not there was asked for %d times", n)
		}
	})
}

func TestAWalkThatIsCutShortIsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		b := newRun(&origin{}, m)
		b.options.Job.Paginate.MaxPages = 1
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobFailed || s.Units.Incomplete != 10 || len(m.records) != 10 {
			t.Errorf("%+v, %d records", s, len(m.records))
		}
	})
}

func TestARefusalOfAbideCostsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{}, newMemory()
		o.answer = func(_ string, nth int) (int, string) {
			if nth <= 20 {
				return 503, `Proxy-Status: abide; details="breaker"`
			}
			return 200, ""
		}
		b, began := newRun(o, m), time.Now()
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobDone {
			t.Errorf("%+v", s)
		}
		if took := time.Since(began); took < 600*time.Second {
			t.Errorf("it did not wait as long as abide said: %v", took)
		}
	})
}

func TestAnOutputThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Second}, newMemory()
		var lines []string
		b := newRun(o, m)
		b.patience.Log = func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
		b.patience.Warn = b.patience.Log
		time.AfterFunc(2500*time.Millisecond, func() { m.set(func() { m.away = true }) })
		time.AfterFunc(time.Hour, func() { m.set(func() { m.away = false }) })
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for u, n := range o.asked {
			if n != 1 {
				t.Errorf("%s was asked for %d times", u, n)
			}
		}
		if len(m.records) != 20 || len(lines) != 2 {
			t.Errorf("%d records, log: %q", len(m.records), lines)
		}
	})
}

func TestAStopReleasesTheUnitsWithoutATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Second}, newMemory()
		b := newRun(o, m)
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		if err := b.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, k := range m.units {
			if k.state == output.Running || k.Tries > 0 {
				t.Errorf("%s is %s after %d tries", k.Key, k.state, k.Tries)
			}
		}
		again := newRun(&origin{}, m)
		if err := again.Run(t.Context()); err != nil || len(m.records) != 20 {
			t.Errorf("%d records, %v", len(m.records), err)
		}
	})
}

func TestAUnitThatAnotherProcessHasIsLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Minute}, newMemory()
		b := newRun(o, m)
		time.AfterFunc(time.Second, func() {
			m.set(func() {
				m.lost["u0"] = true
				m.units[0].state = output.Done // the other process
			})
		})
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := o.count("http://api.test/u0?page=1"); n > 0 || len(m.records) != 18 {
			t.Errorf("it went on with a lost unit: %d requests, %d records", n, len(m.records))
		}
	})
}

func TestAPausedJobSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{took: time.Second}, newMemory()
		b, began := newRun(o, m), time.Now()
		time.AfterFunc(2*time.Second, func() { b.Pause(true) })
		time.AfterFunc(time.Minute, func() {
			if s := b.Status(time.Now()); s.State != status.JobPaused {
				t.Errorf("%+v", s)
			}
		})
		time.AfterFunc(time.Hour, func() { b.Pause(false) })
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Hour || len(m.records) != 20 {
			t.Errorf("%v, %d records", took, len(m.records))
		}
	})
}

func TestAPageThatWasLateIsCommittedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{}, newMemory()
		m.late = 3
		b := newRun(o, m)
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobDone || len(m.records) != 20 || m.late > 0 {
			t.Errorf("%+v, %d records", s, len(m.records))
		}
	})
}

// An answer is read once: the rules of a job about answers do not make JSON of what its records are read from as CSV.
func TestRulesDoNotSpoilAnAnswerInCSV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, m := &origin{body: "id,name\n1,ada\n2,grace\n", answer: func(string, int) (int, string) { return 200, "Content-Type: text/csv" }}, newMemory()
		b := newRun(o, m)
		b.options.Job.Records, b.options.Job.Paginate = "", jobfile.Pagination{}
		b.options.Job.Errors = []jobfile.Rule{{Status: 404, Then: "skip"}}
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := b.Status(time.Now()); s.State != status.JobDone || s.Records != 2 { // the same two in each unit
			t.Errorf("%+v", s)
		}
	})
}
