package bandwidth

import (
	"cmp"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
)

// minRead is the least number of bytes of a read, if so many have arrived.
const minRead = 1 << 10

var errStall = errors.New("a byte limit paused it for too long")

// SiteBudget grants and counts the bytes of an owner's connections. Many requests and
// tunnels share it. It is safe for concurrent use.
type SiteBudget struct {
	*metrics.Site
	owner Owner
	all   *Budgets

	// From the configuration; refresh changes them.
	enforce atomic.Bool
	stall   atomic.Int64 // nanoseconds
	minimum atomic.Int64 // bytes that are taken at once
	buffer  atomic.Int64 // bytes that the system may receive ahead on a connection
	limits  *queue.ByteSource
	trickle *queue.ByteSource
	counted counted

	users int          // guarded by Budgets.mu
	used  atomic.Int64 // last use, in nanoseconds since Budgets.began

	trickled atomic.Int64 // bytes of the last trickle, which may be refunded to it
}

// Tag is the tag of a byte source's queue.Request.
type Tag struct {
	*SiteBudget
	trickle bool
}

// Limits are the limits that the present configuration gives the byte source.
func (t Tag) Limits() []queue.Limit {
	rules := t.all.deps.Rules(t.owner)
	return rules.of(t.trickle)
}

// source makes a byte source of the limits or of their trickle.
func (b *SiteBudget) source(trickle bool) *queue.ByteSource {
	o, rules := &b.owner, b.all.deps.Rules(b.owner)
	return b.all.deps.Gate.ByteSource(queue.Request{
		Site: o.Site, Client: o.Client, Method: o.Method, Path: o.Path,
		Tag: Tag{b, trickle}, Generation: rules.Made, Limits: [][]queue.Limit{rules.of(trickle)},
	})
}

// refresh applies the present configuration.
func (b *SiteBudget) refresh() {
	rules := b.all.deps.Rules(b.owner)
	b.enforce.Store(rules.Enforce)
	b.stall.Store(int64(rules.Stall))
	b.minimum.Store(minimumOf(rules.Limits))
	b.buffer.Store(queue.BufferOf(rules.Limits))
	b.counted.setLimits(b, rules.Limits)
}

func (b *SiteBudget) touch() { b.used.Store(int64(time.Since(b.all.began))) }

// Owner identifies the budget.
func (b *SiteBudget) Owner() Owner { return b.owner }

// Budgeted implements upstream.ByteLimiter.
func (b *SiteBudget) Budgeted() bool { return b.enforce.Load() }

// Refund implements upstream.ByteLimiter. The last trickle is refunded to the trickle first.
func (b *SiteBudget) Refund(n int) {
	part := min(int64(n), b.trickled.Swap(0))
	if part > 0 {
		b.trickle.Refund(part)
	}
	b.limits.Refund(int64(n) - part)
}

// Credit implements upstream.ByteLimiter. A paused connection gets a trickle from time to time,
// until it has paused for longer than the stall.
func (b *SiteBudget) Credit(done <-chan struct{}, since *time.Time, n int, arrived func() (unread, spare int64)) (int, error) {
	d := queue.Draw{Most: int64(n), Arrived: arrived}
	if arrived != nil {
		d.Least = int64(min(n, minRead))
	}
	got, err := b.take(done, since, d, true)
	if err == nil && got == 0 {
		got = n
	}
	return got, err
}

// take waits for a draw. A trickle may be smaller, and does not end the pause. No bytes are taken if there
// is no limit.
func (b *SiteBudget) take(done <-chan struct{}, since *time.Time, d queue.Draw, trickles bool) (int, error) {
	began := *since
	*since = time.Time{}
	d.Least = max(b.minimum.Load(), d.Least)
	for b.Budgeted() { // a reload may remove the limit
		now := time.Now()
		b.touch()
		end := cmp.Or(began, now).Add(time.Duration(b.stall.Load()))
		if d.Until = now.Add(b.all.deps.TrickleEvery); end.Before(d.Until) {
			d.Until = end
		}
		got, err := b.limits.Draw(done, d)
		if err == nil || over(err) || closed(done) {
			return int(got), err
		}
		began = cmp.Or(began, now)
		now = time.Now()
		switch {
		case !now.Before(end):
			b.all.deps.Closed(b.owner, b.Title())
			if b.owner.Tunnel {
				b.all.deps.Cut()
			}
			return 0, errStall
		case !trickles:
			continue
		}
		if got, err = b.trickle.Draw(done, queue.Draw{Most: min(d.Most, maxTrickle), Least: 1, Until: now}); err == nil {
			b.trickled.Store(got)
			*since = began
		}
		if err == nil || over(err) {
			return int(got), err
		}
	}
	return 0, nil
}

// Buffer implements upstream.ByteLimiter.
func (b *SiteBudget) Buffer() int { return int(b.buffer.Load()) }

// Open implements upstream.ByteLimiter.
func (b *SiteBudget) Open(done <-chan struct{}, since *time.Time, size, n int) (granted, held int, err error) {
	if b.counted.open(b, int64(size), int64(n)) {
		return n, size, nil
	}
	got, err := b.take(done, since, queue.Draw{Most: int64(size + n), Least: int64(size + 1), Hold: int64(size)}, false)
	if err != nil || got == 0 {
		return n, 0, err
	}
	held = min(size, got-1)
	b.counted.opened(int64(held))
	return got - held, held, nil
}

// Release implements upstream.ByteLimiter.
func (b *SiteBudget) Release(held, back int) {
	b.counted.release(b, int64(held), int64(back))
}

// Crowded implements upstream.ByteLimiter.
func (b *SiteBudget) Crowded() bool { return b.limits.Crowded() }

// over tells whether a byte source will never give bytes again: abide stops, or the budget
// was closed.
func over(err error) bool {
	refusal, refused := errors.AsType[*queue.Refusal](err)
	return errors.Is(err, queue.ErrGone) || refused && refusal.Reason == queue.Draining
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TooLong tells whether a body of that length cannot pass without a pause longer than the
// stall, and when the limits would have enough for all of it.
func (b *SiteBudget) TooLong(length int64) (at time.Time, tooLong bool) {
	if !b.Budgeted() || length <= 0 || b.counted.on.Load() && length <= b.counted.most.Load() {
		return time.Time{}, false
	}
	at, pause, ok := b.limits.Forecast(length)
	return at, !ok || pause > time.Duration(b.stall.Load())
}

// Title is the titles of the limits of the budget, separated by commas.
func (b *SiteBudget) Title() string {
	titles := lists.Map(b.all.deps.Rules(b.owner).Limits, func(l queue.Limit) string { return l.Title })
	return strings.Join(titles, ", ")
}
