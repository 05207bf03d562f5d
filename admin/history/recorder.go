package history

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// writingPatience bounds the time for writing one minute, and lastPatience that for the last
	// write before the process ends.
	writingPatience = 30 * time.Second
	lastPatience    = 2 * time.Second
)

// File keeps history. *store.File is one.
type File interface {
	Record(ctx context.Context, h store.History) error
	Rows(ctx context.Context, k store.RowKind, site string, since, until time.Time, step time.Duration) ([]store.Row, error)
	Put(ctx context.Context, kind, key string, value []byte, until time.Time) error
	All(ctx context.Context, kind string) (map[string][]byte, error)
}

// begun is the kind, and key, of the document of a file that has the time of the last BeginAnew, in minutes.
const begun = "history begun"

// Options are the sources and the destination of a Recorder. A function that is nil has nothing.
type Options struct {
	Sites   func() []metrics.SiteCount
	Blocked func() []status.BlockedTime
	Tokens  func() status.Tokens
	Waiting func() int // how many requests wait
	File    File       // nil: only the last hour is kept, in memory
	Log     *logrus.Logger
}

// Recorder keeps what was counted: of each second and each 10 seconds for some minutes, of each minute for an hour
// and in a file. Make it with New, and call Run. It is safe for concurrent use.
type Recorder struct {
	options Options
	began   time.Time
	counted counted
	wake    signal.Signal // of Run: there is something to write now

	mu        sync.Mutex
	tally     tally
	growth    metrics.Growth[blockedKey] // a site that the queue forgot begins anew
	rings     rings
	unwritten sums // what is to be written
	recent    recent
	anew      bool // recent.changed is to be written
	failing   bool
	tokensAt  atomic.Int64 // in nanoseconds since 1970: no sample of tokens before
}

// New is a Recorder that has counted nothing.
func New(o Options) *Recorder {
	return &Recorder{options: o, began: time.Now(), wake: signal.New(), rings: rings{sites: map[string]*course{}, tokens: map[TokenKey]*timeline{}}}
}

// answer calls one of the functions of Options, which may be nil.
func answer[T any](f func() T) (v T) {
	if f != nil {
		v = f()
	}
	return v
}

// Count adds requests of a client. It is quick.
func (r *Recorder) Count(u store.Row, failed ...string) {
	h := store.History{store.UsageRows: []store.Row{u}}
	for _, what := range failed {
		h[store.FailedRows] = append(h[store.FailedRows], store.Row{Site: u.Site, What: what, Requests: 1})
	}
	r.counted.add(h)
}

// Run takes a sample at each full second, and records at each full minute, until ctx is done, and the rest at the end.
func (r *Recorder) Run(ctx context.Context) {
	var sampling sync.WaitGroup
	defer sampling.Wait()
	sampling.Go(func() { // writing may take long
		for clock.Sleep(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second))) == nil {
			r.Take(time.Now())
		}
	})
	r.Load(ctx, time.Now())
	for {
		minute, within := time.Now().Truncate(time.Minute), writingPatience
		select {
		case <-ctx.Done():
			within = lastPatience
		case <-r.wake:
		case <-time.After(time.Until(minute.Add(time.Minute))):
		}
		if r.record(context.WithoutCancel(ctx), minute, within); ctx.Err() != nil {
			return
		}
	}
}

// BeginAnew lets Recent leave out what was counted until now, because other limits or tokens hold from now
// on. Run writes that.
func (r *Recorder) BeginAnew(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collect(now.Truncate(time.Minute))
	r.recent.beginAnew(now)
	r.anew = true
	r.wake.Send()
}

// Load reads the last hour of the file. Run does it, too.
func (r *Recorder) Load(ctx context.Context, now time.Time) {
	if r.options.File == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writingPatience)
	defer cancel()
	since, until := now.Add(-kept), now.Add(time.Minute)
	var h store.History
	var errs [store.Kinds]error
	for k := range store.Kinds {
		h[k], errs[k] = r.options.File.Rows(ctx, k, "", since, until, time.Minute)
	}
	if err := errors.Join(errs[:]...); err != nil && ctx.Err() == nil && !store.IsTold(err) {
		r.options.Log.WithField("reason", err).Warnf("the history of the last hour cannot be read, so advice begins anew: %v", err)
	}
	var last time.Time
	documents, _ := r.options.File.All(ctx, begun) // without one the whole hour counts
	_ = last.UnmarshalText(documents[begun])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.changed = status.Later(r.recent.changed, last)
	r.recent.load(h)
}

// record writes what was counted since the last call, what could not be written before, and the time of BeginAnew.
func (r *Recorder) record(ctx context.Context, minute time.Time, within time.Duration) {
	r.mu.Lock()
	r.collect(minute)
	list, changed, anew := r.unwritten.at(minute), r.recent.changed, r.anew
	r.unwritten, r.anew = sums{}, false
	r.mu.Unlock()
	if r.options.File == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if !list.Empty() {
		r.recorded(list, r.options.File.Record(ctx, list))
	}
	if text, err := changed.Truncate(time.Minute).MarshalText(); err == nil && anew {
		_ = r.options.File.Put(ctx, begun, begun, text, changed.Add(kept)) // the store tells what fails
	}
}

// recorded keeps rows that were not written, for the next time.
func (r *Recorder) recorded(list store.History, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.failing && !store.IsTold(err) {
		r.options.Log.WithField("reason", err).Warnf("what went from and to sites cannot be recorded: %v", err)
	}
	r.failing = err != nil
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // after a timeout the rows may have been written, and must not be written twice
		r.unwritten.add(list)
	}
}

// Take takes a sample. Those of tokens take a fiftieth of the time at most, but there is one in each Step.
func (r *Recorder) Take(now time.Time) {
	due, began, waiting := now.UnixNano() >= r.tokensAt.Load(), time.Now(), answer(r.options.Waiting)
	var tokens status.Tokens
	if due {
		tokens = answer(r.options.Tokens)
		r.tokensAt.Store(now.Add(min(50*time.Since(began), Step/2)).UnixNano())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeSites(now)
	r.rings.waiting.highest(now, float32(waiting))
	if due {
		r.rings.takeTokens(now, tokens)
	}
}

// takeSites adds what was counted of sites since the last call. Most of that is of the half a second before.
func (r *Recorder) takeSites(now time.Time) {
	grown := r.tally.since(answer(r.options.Sites))
	r.rings.takeSites(now.Add(-time.Second/2), r.tally.seen, grown)
	r.counted.add(store.History{store.TrafficRows: grown})
}

// collect closes a minute. The caller holds the lock.
func (r *Recorder) collect(minute time.Time) {
	fresh := r.fresh(time.Now(), minute, true)
	r.recent.add(minute, r.began, fresh)
	if r.options.File != nil {
		r.unwritten.add(fresh)
	}
}

// fresh returns what was counted since the last call with take, as the counts of a minute.
func (r *Recorder) fresh(now, minute time.Time, take bool) store.History {
	r.takeSites(now)
	r.counted.add(store.History{store.BlockedRows: r.blockedSince()})
	return r.counted.list(minute, take)
}
