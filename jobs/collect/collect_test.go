package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// unsaid is a log that nobody reads.
func unsaid(string, ...any) {}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Sender and an output.
type world struct {
	Output // what no test asks for

	mu      sync.Mutex
	asked   map[string][]time.Time
	busy    map[string]bool
	twice   int // requests to a target that was under way
	sent    int64
	answer  func(item string, r *http.Request) (status int, body string, header http.Header, took time.Duration)
	records []output.Record
	kept    int  // records, without keeping them
	forget  bool // records are counted alone
	targets map[string]output.Target
	away    bool
}

func (w *world) Close() {}

func (w *world) Send(ctx context.Context, r *http.Request, _ send.Options) (*http.Response, error) {
	item := r.URL.Path[1:]
	w.mu.Lock()
	if w.busy[item] {
		w.twice++
	}
	w.busy[item] = true
	w.asked[item] = append(w.asked[item], time.Now())
	status, body, header, took := w.answer(item, r)
	w.mu.Unlock()
	timer := time.NewTimer(took)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[item] = false
	if err != nil {
		return nil, err
	}
	w.sent += int64(len(body))
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (w *world) Targets(context.Context) (map[string]output.Target, error) { return w.targets, nil }

func (w *world) Append(_ context.Context, list []output.Record, targets []output.Target) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return output.ErrAway
	}
	w.kept += len(list)
	if !w.forget {
		for i := range list {
			list[i].Body = append([]byte(nil), list[i].Body...)
		}
		w.records = append(w.records, list...)
	}
	for _, one := range targets {
		w.targets[one.Key] = one
	}
	return nil
}

func items(n int) iter.Seq2[output.Unit, error] {
	return func(yield func(output.Unit, error) bool) {
		for i := range n {
			if !yield(output.Unit{Key: fmt.Sprintf("t%d", i), Place: int64(i)}, nil) {
				return
			}
		}
	}
}

// collector is a collection of n targets every 30 seconds.
func collector(t *testing.T, w *world, n int, more string) *Collector {
	t.Helper()
	job, err := jobfile.Load(policy.Source{Path: "job.yaml", Data: []byte("name: prices\nrequest: https://api.test/{item}\nitems: [x]\nid: id\nevery: 30s\n" + more)})
	if err != nil {
		t.Fatal(err)
	}
	w.asked, w.busy = map[string][]time.Time{}, map[string]bool{}
	if w.targets == nil {
		w.targets = map[string]output.Target{}
	}
	c, err := New(t.Context(), Options{Job: job, Output: w, Sender: w, Units: items(n), Log: unsaid, Warn: unsaid})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func runFor(t *testing.T, c *Collector, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := c.Run(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// An hour of 2,000 targets, of which a third never answers.
func TestTwoThousandTargetsAreAskedOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := func(item string) bool { return len(item)%3 == 0 }
		body := strings.Repeat("x", 1000)
		w := &world{forget: true}
		w.answer = func(item string, r *http.Request) (int, string, http.Header, time.Duration) {
			if dead(item) {
				return 0, "", nil, time.Hour
			}
			if r.Header.Get("If-None-Match") == `"1"` {
				return 304, "", nil, 200 * time.Millisecond
			}
			return 200, `{"id":1,"t":"` + body + `"}`, http.Header{"Etag": {`"1"`}}, 200 * time.Millisecond
		}
		c := collector(t, w, 2000, "")
		var before, after runtime.MemStats
		time.AfterFunc(5*time.Minute, func() { runtime.GC(); runtime.ReadMemStats(&before) })
		time.AfterFunc(hour-time.Minute, func() { runtime.GC(); runtime.ReadMemStats(&after) })
		runFor(t, c, hour)
		rounds, late, living := int(hour/(30*time.Second)), time.Duration(0), 0
		for _, one := range c.schedule.due.Items() {
			if dead(one.key) {
				if n := len(w.asked[one.key]); n > 14 {
					t.Fatalf("%s does not answer and was asked %d times", one.key, n)
				}
				continue
			}
			living++
			times := w.asked[one.key]
			if len(times) < rounds-1 || len(times) > rounds {
				t.Fatalf("%s was asked %d times in %d rounds", one.key, len(times), rounds)
			}
			for _, at := range times {
				late = max(late, at.Sub(c.schedule.slot(one, at.Add(-15*time.Second))))
			}
		}
		if late > 300*time.Millisecond || w.twice > 0 || living < 1000 {
			t.Errorf("a request was %v late, %d were sent while the target was under way, %d answer", late, w.twice, living)
		}
		if sent := int64(living) * 1100; w.sent > sent {
			t.Errorf("%d bytes came, though after the first round nothing has changed: %d", w.sent, sent)
		}
		if w.kept != living {
			t.Errorf("%d records were stored of %d targets that do not change", w.kept, living)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("memory has grown by %d MB", grown>>20)
		}
		s := c.Status(time.Now())
		if s.Round.Failing != 2000-living || s.Round.Missed > 0 || s.Round.Number < int64(rounds) {
			t.Errorf("%+v", s.Round)
		}
	})
}

func TestOnlyChangesAreStored(t *testing.T) {
	for more, want := range map[string]int{"": 8, "store: all": 40} {
		synctest.Test(t, func(t *testing.T) {
			w, began := &world{}, time.Now()
			w.answer = func(string, *http.Request) (int, string, http.Header, time.Duration) {
				version := int(time.Since(began) / (100 * time.Second)) // changes twice
				return 200, fmt.Sprintf(`[{"id":"steady"},{"id":"moves","v":%d}]`, version), nil, 0
			}
			c := collector(t, w, 2, more)
			runFor(t, c, 295*time.Second)
			if len(w.records) < want-4 || len(w.records) > want {
				t.Errorf("%q: %d records were stored", more, len(w.records))
			}
			stored := len(w.records)
			again := collector(t, w, 2, more)
			runFor(t, again, 31*time.Second)
			if more == "" && len(w.records) > stored+2 {
				t.Errorf("after a restart %d more were stored", len(w.records)-stored)
			}
		})
	}
}

func TestAnOutputThatIsAwayHoldsTheCollectionBackAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := &world{}, 0
		w.answer = func(string, *http.Request) (int, string, http.Header, time.Duration) {
			n++
			return 200, fmt.Sprintf(`{"id":%d,"t":%q}`, n, strings.Repeat("x", 100_000)), nil, 0
		}
		c := collector(t, w, 10, "memory: 5MB")
		time.AfterFunc(time.Minute, func() { w.mu.Lock(); w.away = true; w.mu.Unlock() })
		time.AfterFunc(hour-10*time.Minute, func() {
			held := 0
			c.writer.mu.Lock()
			for _, r := range c.writer.batch.records {
				held += len(r.Body)
			}
			c.writer.mu.Unlock()
			if held < 4_000_000 || held > 6_000_000 {
				t.Errorf("%d bytes are held", held)
			}
			w.mu.Lock()
			w.away = false
			w.mu.Unlock()
		})
		runFor(t, c, hour)
		if s := c.Status(time.Now()); len(w.records) != n || s.Round.Missed < 50 || s.Records != int64(n) {
			t.Errorf("%d of %d records were stored, %+v", len(w.records), n, s.Round)
		}
	})
}

func TestARefusalOfAbideIsAMissedRoundAndNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.answer = func(string, *http.Request) (int, string, http.Header, time.Duration) {
			return 429, "", http.Header{"Proxy-Status": {`abide; details="wait"`}, "Retry-After": {"60"}}, 0
		}
		c := collector(t, w, 3, "")
		runFor(t, c, 10*time.Minute)
		if s := c.Status(time.Now()); s.Round.Failing > 0 || s.Round.Missed < 57 || s.Round.Missed > 60 {
			t.Errorf("%+v", s.Round)
		}
	})
}

func TestItemsThatABatchLeavesOutAreSaid(t *testing.T) {
	records := func(ids ...string) (list []output.Record) {
		for _, id := range ids {
			list = append(list, output.Record{ID: id})
		}
		return list
	}
	for _, test := range []struct {
		list []output.Record
		want string
	}{
		{records("a", "b", "c"), ""}, {records("c", "a"), "b"}, {records("a"), "b, c"}, {records("1", "2", "3"), ""}, {records("1", "2"), "1 of them"}, {nil, "3 of them"},
	} {
		if got := leftOut([]string{"a", "b", "c"}, test.list); got != test.want {
			t.Errorf("of %v are left out %q", test.list, got)
		}
	}
	if got := leftOut([]string{"a"}, nil); got != "" {
		t.Errorf("of one item is left out %q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{answer: func(string, *http.Request) (int, string, http.Header, time.Duration) {
			return 200, `[{"id":"t0"}]`, nil, 0
		}}
		c := collector(t, w, 2, "batch: {param: ids}\n")
		var warned []string
		c.options.Warn = func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }
		runFor(t, c, 5*time.Minute)
		if len(warned) != 1 || warned[0] != "the answer about 2 items leaves out t1" {
			t.Errorf("%q", warned)
		}
	})
}

func TestABatchIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var queries []string
		w.answer = func(_ string, r *http.Request) (int, string, http.Header, time.Duration) {
			queries = append(queries, r.URL.Query().Get("ids"))
			return 200, `[{"id":1},{"id":2}]`, nil, 0
		}
		c := collector(t, w, 5, "")
		c.options.Job.Collect.Batch = jobfile.Batch{Param: "ids", Size: 2, Join: ","}
		c, err := New(t.Context(), c.options)
		if err != nil {
			t.Fatal(err)
		}
		runFor(t, c, 30*time.Second)
		if got := fmt.Sprint(len(queries), strings.Contains(strings.Join(queries, " "), "t2,t3")); got != "3 true" {
			t.Errorf("%q", queries)
		}
	})
}

func TestAChangedListOfItemsStoresNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.answer = func(_ string, r *http.Request) (int, string, http.Header, time.Duration) {
			var list []string
			for id := range strings.SplitSeq(r.URL.Query().Get("ids"), ",") {
				list = append(list, `{"id":"`+id+`"}`)
			}
			return 200, "[" + strings.Join(list, ",") + "]", nil, 0
		}
		for _, n := range []int{5, 6} { // the batches of the second list are others
			c := collector(t, w, n, "")
			c.options.Job.Collect.Batch = jobfile.Batch{Param: "ids", Size: n, Join: ","}
			c, err := New(t.Context(), c.options)
			if err != nil {
				t.Fatal(err)
			}
			runFor(t, c, 31*time.Second)
			if len(w.records) != n {
				t.Errorf("%d records of %d items were stored", len(w.records), n)
			}
		}
	})
}

func TestAPausedCollectionAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.answer = func(string, *http.Request) (int, string, http.Header, time.Duration) { return 200, `{"id":1}`, nil, 0 }
		c := collector(t, w, 3, "")
		c.Pause(true)
		time.AfterFunc(10*time.Minute, func() {
			if len(w.asked) > 0 {
				t.Errorf("%v", w.asked)
			}
			c.Pause(false)
		})
		runFor(t, c, 11*time.Minute)
		if len(w.asked) != 3 {
			t.Errorf("%d targets were asked after the pause", len(w.asked))
		}
	})
}

func TestDeadTargetsDoNotTakeTheWorkersOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.answer = func(item string, _ *http.Request) (int, string, http.Header, time.Duration) {
			if item == "t5" {
				return 200, `{"id":1}`, nil, 100 * time.Millisecond
			}
			return 0, "", nil, time.Hour
		}
		c := collector(t, w, 20, "workers: 3")
		settled := time.Now().Add(20 * time.Minute)
		runFor(t, c, 40*time.Minute)
		n := 0
		for _, at := range w.asked["t5"] {
			if at.After(settled) {
				n++
			}
		}
		if n < 39 {
			t.Errorf("the target that answers was asked %d times in 40 rounds", n)
		}
	})
}
