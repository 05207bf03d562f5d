package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

func noBlocked() []status.BlockedTime { return nil }

// fakeFile records by a function, and has what it is given.
type fakeFile struct {
	record func(context.Context, store.History) error
	has    store.History
	put    map[string][]byte // documents; nil: none are kept
}

func (f fakeFile) Put(_ context.Context, _, key string, value []byte, _ time.Time) error {
	if f.put != nil {
		f.put[key] = value
	}
	return nil
}

func (f fakeFile) All(context.Context, string) (map[string][]byte, error) { return f.put, nil }

func (f fakeFile) Record(ctx context.Context, h store.History) error { return f.record(ctx, h) }

func (f fakeFile) Rows(_ context.Context, k store.RowKind, _ string, _, _ time.Time, _ time.Duration) ([]store.Row, error) {
	return slices.Clone(f.has[k]), nil
}

func TestEachMinuteIsRecordedAndTheRestAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logrus.New()
		var said strings.Builder
		log.SetOutput(&said)
		m := metrics.New(10)
		var written []string
		var fails atomic.Pointer[error] // nil: it writes
		r := New(Options{Sites: m.Sites, Blocked: noBlocked, Log: log, File: fakeFile{record: func(ctx context.Context, h store.History) error {
			list := h[store.TrafficRows]
			if _, ok := ctx.Deadline(); !ok || ctx.Err() != nil {
				t.Errorf("%v %v", ok, ctx.Err())
			}
			if err := fails.Load(); err != nil {
				return *err
			}
			for _, one := range list {
				if !one.Minute.Equal(list[0].Minute) {
					t.Errorf("%+v", list)
				}
			}
			written = append(written, list[0].Minute.UTC().Format("15:04:05 ")+told(list))
			return nil
		}}})
		time.Sleep(20 * time.Second) // 00:00:20
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		m.Site("a").Read(10)
		time.Sleep(41 * time.Second) // 00:01:01
		time.Sleep(time.Minute)      // nothing was counted
		m.Site("a").Read(5)
		m.Site("b").Wrote(7)
		full := errors.New("disk full")
		fails.Store(&full)
		time.Sleep(2 * time.Minute) // 00:04:01
		fails.Store(nil)
		m.Site("b").Wrote(1)
		time.Sleep(time.Minute) // 00:05:01
		m.Site("c").Request("GET", 200, 0)
		late := context.DeadlineExceeded
		fails.Store(&late)
		time.Sleep(time.Minute) // 00:06:01
		fails.Store(nil)
		m.Site("c").Read(9)
		stop()
		<-done
		want := "00:00:00 a 0/10/0; 00:04:00 a 0/5/0, b 0/0/8; 00:06:00 c 0/9/0"
		if got := strings.Join(written, "; "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if n := strings.Count(said.String(), "recorded: disk full"); n != 1 {
			t.Errorf("it was told %d times:\n%s", n, said.String())
		}
	})
}

func TestWhatCannotBeWrittenHasABound(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := New(Options{Log: log, Blocked: noBlocked, File: fakeFile{record: func(context.Context, store.History) error { return errors.New("disk full") }}})
	n := 0
	r.options.Sites = func() (list []metrics.SiteCount) {
		for range 4000 {
			list = append(list, metrics.SiteCount{Counts: status.Counts{Name: fmt.Sprint(n), In: 1}})
			n++
		}
		return list
	}
	for range 10 {
		r.record(t.Context(), time.Now(), time.Second)
	}
	var sum int64
	for _, one := range r.unwritten[store.TrafficRows] {
		sum += one.In
	}
	if len(r.unwritten[store.TrafficRows]) > kinds[store.TrafficRows].most+1 || sum != 40_000 {
		t.Errorf("%d sites, %d of 40000 bytes", len(r.unwritten[store.TrafficRows]), sum)
	}
}

// usageOf is usage in few words.
func usageOf(list []store.Row) string {
	var words []string
	for _, u := range list {
		words = append(words, fmt.Sprintf("%s %s/%s/%d/%s %d %d %v %d/%d", u.Minute.UTC().Format("15:04"), u.Site, u.Client, u.Priority, u.Token, u.Requests, u.Refusals, u.Waited, u.In, u.Out))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func request(site, client string) store.Row {
	return store.Row{Site: site, Client: client, Priority: 3, Requests: 1, Refusals: 2, Waited: time.Second, In: 10, Out: 5}
}

func TestWhatIsNotWrittenYetIsInReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(10)
		var kept store.History
		held := 0.0
		file := fakeFile{record: func(_ context.Context, h store.History) error { kept = h; return nil }}
		r := New(Options{Sites: m.Sites, Log: logrus.New(), File: &file, Blocked: func() []status.BlockedTime {
			return []status.BlockedTime{{Site: "a", Limit: "5/s", Seconds: held, Busy: held / 2}}
		}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		m.Site("a").Read(7)
		r.Count(request("a", "news"))
		r.Count(request("a", "news"), "402", "wait")
		r.Count(request("b", "shop"), "402")
		held = 8
		for range 2 { // asking takes nothing away
			list, err := r.Rows(ctx, store.UsageRows, "a", from, to, time.Minute)
			if got := usageOf(list); err != nil || got != "00:00 a/news/3/ 2 4 2s 20/10" {
				t.Error(got, err)
			}
			traffic, err := r.Rows(ctx, store.TrafficRows, "", from, to, time.Hour)
			if err != nil || told(traffic) != "a 0/7/0" {
				t.Error(traffic, err)
			}
			failed, err := r.Rows(ctx, store.FailedRows, "a", from, to, 0)
			if len(failed) != 2 || failed[0].Requests != 1 || err != nil {
				t.Error(failed, err)
			}
			blocked, err := r.Rows(ctx, store.BlockedRows, "", from, to, 0)
			if err != nil || len(blocked) != 1 || blocked[0].Held != 8*time.Second || blocked[0].Busy != 4*time.Second {
				t.Error(blocked, err)
			}
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if len(kept[store.FailedRows]) != 3 {
			t.Error(kept[store.FailedRows])
		}
		file.has = kept // what was written is in the file now
		r.Count(request("a", "news"))
		list, _ := r.Rows(ctx, store.UsageRows, "a", from, to, time.Minute)
		if got := usageOf(list); got != "00:00 a/news/3/ 2 4 2s 20/10, 00:01 a/news/3/ 1 2 1s 10/5, 00:00 b/shop/3/ 1 2 1s 10/5" && got != "00:00 a/news/3/ 2 4 2s 20/10, 00:00 b/shop/3/ 1 2 1s 10/5, 00:01 a/news/3/ 1 2 1s 10/5" {
			t.Error(got)
		}
		h, _, _ := r.Recent(time.Now(), time.Hour)
		if got := usageOf(h[store.UsageRows]); got != "00:00 a/news/3/ 3 6 3s 30/15, 00:00 b/shop/3/ 1 2 1s 10/5" {
			t.Error(got)
		}
		stop()
		<-done
		if got := usageOf(kept[store.UsageRows]); got != "00:01 a/news/3/ 1 2 1s 10/5" {
			t.Error("at the end:", got)
		}
	})
}

func TestTheLastHourIsReadFromTheFileAndThenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		old := request("a", "news")
		old.Minute = now.Add(-30 * time.Minute)
		blocked := store.Row{Site: "a", Limit: "5/s", Minute: old.Minute, Held: time.Minute, Busy: time.Second}
		file := fakeFile{record: func(context.Context, store.History) error { return nil }, has: store.History{store.UsageRows: []store.Row{old}, store.BlockedRows: []store.Row{blocked}}}
		r := New(Options{Sites: metrics.New(1).Sites, Blocked: noBlocked, Log: logrus.New(), File: file})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		h, since, active := r.Recent(time.Now(), time.Hour)
		if got := usageOf(h[store.UsageRows]); got != "23:30 a/news/3/ 1 2 1s 10/5" || !since.Equal(old.Minute) || active != time.Minute || len(h[store.BlockedRows]) != 1 || h[store.BlockedRows][0].Held != time.Minute {
			t.Error(got, since, h[store.BlockedRows])
		}
		time.Sleep(31*time.Minute + time.Second)
		if h, _, _ := r.Recent(time.Now(), time.Hour); !h.Empty() {
			t.Error(h)
		}
		stop()
		<-done
	})
}

// What other limits have held, or an earlier command, is no reason for advice.
func TestWhatWasCountedBeforeAChangeIsNotRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := request("a", "news")
		old.Minute = time.Now().Add(-5 * time.Minute)
		r := New(Options{Log: logrus.New(), File: fakeFile{record: func(context.Context, store.History) error { return nil }, has: store.History{store.UsageRows: []store.Row{old}}}})
		r.BeginAnew(time.Now())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		recent := func() string {
			h, _, _ := r.Recent(time.Now(), time.Hour)
			return usageOf(h[store.UsageRows])
		}
		if got := recent(); got != "" {
			t.Errorf("of an earlier process: %s", got)
		}
		time.Sleep(70 * time.Second)
		r.Count(request("b", "news"))
		time.Sleep(time.Minute)
		r.Count(request("c", "news"))
		r.BeginAnew(time.Now())
		if got := recent(); got != "" {
			t.Errorf("before the change: %s", got)
		}
		r.Count(request("d", "news"))
		time.Sleep(time.Minute)
		if h, _, active := r.Recent(time.Now(), time.Hour); len(h[store.UsageRows]) != 1 || h[store.UsageRows][0].Site != "d" || active > time.Minute {
			t.Error(usageOf(h[store.UsageRows]), active)
		}
		stop()
		<-done
	})
}

// A reload begins anew, and the next change of the configuration must not wait for the disk.
func TestBeginningAnewDoesNotWaitForTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := map[string][]byte{}
		r := New(Options{Log: logrus.New(), File: fakeFile{put: written, record: func(context.Context, store.History) error {
			time.Sleep(5 * time.Second)
			return nil
		}}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		for range 3 {
			r.Count(request("a", "news"))
			began := time.Now()
			r.BeginAnew(time.Now())
			if took := time.Since(began); took > 0 {
				t.Errorf("it took %v", took)
			}
			if h, _, _ := r.Recent(time.Now(), time.Hour); !h.Empty() {
				t.Error(usageOf(h[store.UsageRows]))
			}
		}
		time.Sleep(11 * time.Second)
		if synctest.Wait(); len(written) == 0 {
			t.Error("other processes do not know of it")
		}
		stop()
		<-done
	})
}

// TestNoTimeBeforeTheStartIsRecent: the minute in which the process started is not a whole one.
func TestNoTimeBeforeTheStartIsRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Second)
		r := New(Options{Sites: metrics.New(1).Sites, Blocked: noBlocked, Log: logrus.New()})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		for range 56 {
			r.Count(request("a", "news"))
			time.Sleep(time.Second)
		}
		if _, _, active := r.Recent(time.Now(), time.Hour); active != 56*time.Second {
			t.Errorf("%v of 56s", active)
		}
		stop()
		<-done
	})
}

// TestTheMinuteOfAnEarlierProcessCountsWhole: a command asks for advice in the same minute.
func TestTheMinuteOfAnEarlierProcessCountsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := request("a", "news")
		row.Minute = time.Now()
		file := fakeFile{has: store.History{store.UsageRows: []store.Row{row}}}
		time.Sleep(55 * time.Second)
		r := New(Options{Log: logrus.New(), File: file})
		r.Load(t.Context(), time.Now())
		if _, _, active := r.Recent(time.Now(), time.Hour); active != 55*time.Second {
			t.Errorf("%v of 55s", active)
		}
	})
}

func TestAnotherProcessLeavesOutWhatWasCountedBeforeTheLastRunBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := fakeFile{record: func(context.Context, store.History) error { return nil }, put: map[string][]byte{}}
		before := New(Options{Log: logrus.New(), File: file})
		before.BeginAnew(time.Now())
		ended, end := context.WithCancel(t.Context())
		end()
		before.Run(ended)
		for _, site := range []string{"first", "second"} {
			row := request(site, "news")
			if row.Minute = time.Now(); site == "first" {
				row.Minute = row.Minute.Add(-5 * time.Minute)
			}
			file.has[store.UsageRows] = append(file.has[store.UsageRows], row)
		}
		time.Sleep(3 * time.Minute)
		r := New(Options{Log: logrus.New(), File: file})
		r.Load(t.Context(), time.Now())
		if h, since, _ := r.Recent(time.Now(), time.Hour); len(h[store.UsageRows]) != 1 || h[store.UsageRows][0].Site != "second" || time.Since(since) > 4*time.Minute {
			t.Errorf("%s since %v", usageOf(h[store.UsageRows]), since)
		}
	})
}

func TestWithoutAFileTheLastHourIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Sites: metrics.New(1).Sites, Blocked: noBlocked, Log: logrus.New()})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		for range 3 {
			r.Count(request("a", "news"))
			time.Sleep(time.Minute + time.Second)
		}
		list, err := r.Rows(ctx, store.UsageRows, "a", time.Now().Add(-time.Hour), time.Now(), time.Hour)
		if got := usageOf(list); err != nil || got != "00:00 a/news/3/ 3 6 3s 30/15" {
			t.Error(got, err)
		}
		stop()
		<-done
	})
}

func TestClientsBeyondTheBoundAreCountedTogether(t *testing.T) {
	var c counted
	const n = 3 * mostUsage
	for i := range n {
		c.sums.count(store.UsageRows, request(fmt.Sprint("site ", i%7), fmt.Sprint("client ", i)))
	}
	for i := range n {
		c.sums.count(store.UsageRows, request(fmt.Sprint("site ", i), "x"))
	}
	var requests, others int64
	list := c.list(time.Time{}, true)[store.UsageRows]
	for _, one := range list {
		requests += one.Requests
		if one.Client == store.Others {
			others += one.Requests
		}
	}
	if len(list) > 2*mostUsage+10 || requests != 2*n || others < n {
		t.Errorf("%d rows, %d requests, %d of others", len(list), requests, others)
	}
	if again := c.list(time.Time{}, true); !again.Empty() {
		t.Error(again)
	}
}

func TestABlockedTimeThatFallsHasBegunAgain(t *testing.T) {
	r := New(Options{})
	for i, one := range []struct{ now, want float64 }{{2, 2}, {5, 3}, {5, 0}, {1, 1}, {4, 3}} {
		r.options.Blocked = func() []status.BlockedTime {
			return []status.BlockedTime{{Site: "a", Limit: "5/s", Seconds: one.now, Busy: one.now}}
		}
		list := r.blockedSince()
		var got time.Duration
		for _, b := range list {
			got += b.Held
		}
		if got != status.DurationOf(one.want) {
			t.Errorf("%d: %v, want %v s", i, got, one.want)
		}
	}
}

// TestSamplesAreTakenByWhoeverLooks, at the same time too: each page and each minute takes one.
func TestSamplesAreTakenByWhoeverLooks(t *testing.T) {
	r := New(Options{Sites: metrics.New(1).Sites, Log: logrus.New()})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				r.Take(time.Now())
			}
		})
	}
	all.Wait()
}
