package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

const (
	site = "api.example"
	key  = "requests"
)

// histories returns how many seeds of a case are run: usual, or ABIDE_HISTORIES times as many. With the race
// detector, by which SQLite is very slow, they are fewer.
func histories(usual int) int {
	if raced {
		usual = (usual + 1) / 2
	}
	times, _ := strconv.Atoi(os.Getenv("ABIDE_HISTORIES"))
	return usual * max(times, 1)
}

// machine is several processes on one file. The file is a real one, and so is each process's store.File;
// their clock is one that the test moves. While somebody else holds the file, they wait for it.
type machine struct {
	t      *testing.T
	random *rand.Rand
	path   string
	spec   limit.Spec
	now    atomic.Int64 // in nanoseconds since 1970
	trace  *trace
	born   int
	living []*process

	other  *sql.DB // another program that writes to the file
	held   *sql.Tx // while it does
	untilH time.Time

	asks, slow, hold time.Duration // the longest time until a write begins, until its answer comes, and for which others hold the file
	unheard          float64       // part of the writes of which no answer comes
}

// process is one of them.
type process struct {
	m       *machine
	id      string
	file    *store.File
	store   store.Store
	account *lease.Account
	meter   limit.Meter
	seq     uint64
	members int           // that use the file, when it looked last
	looks   time.Time     // when it looks again
	read    chan struct{} // gets something when the file has read the clock

	rate    float64 // requests that come in a step
	waiting []int64 // units of requests
	flight  *flight // the write that it waits for
	late    []*flight
	missed  int // writes in a row of which no answer came
}

// flight is one write.
type flight struct {
	batch   store.Batch
	begins  time.Time
	done    chan error // nil: it has not begun
	reply   *store.Reply
	err     error
	arrives time.Time // its answer; zero: it is not written yet
	ends    time.Time // when it is waited for no more
}

func (m *machine) clock() time.Time { return time.Unix(0, m.now.Load()) }

func (m *machine) upTo(d time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(d) + 1))
}

func newMachine(t *testing.T, seed uint64, spec limit.Spec, begin time.Time) *machine {
	t.Helper()
	// In memory where there is such a folder: a thousand writes to a disk take long.
	dir, err := os.MkdirTemp("/dev/shm", "history")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, random: rand.New(rand.NewPCG(seed, 1)), path: filepath.Join(dir, "abide.db"), spec: spec}
	m.now.Store(begin.UnixNano())
	m.trace = &trace{now: m.clock}
	return m
}

// join starts a process, as abide does: it goes on with what no other process has.
func (m *machine) join() *process {
	m.t.Helper()
	m.born++
	p := &process{m: m, id: fmt.Sprint("p", m.born), rate: 0.2, read: make(chan struct{}, 1)}
	file, err := store.OpenFile(m.t.Context(), m.path, store.FileOptions{Instance: p.id, Strict: true, Now: func() time.Time {
		select {
		case p.read <- struct{}{}:
		default:
		}
		return m.clock()
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { file.Close() })
	p.file, p.store = file, &recorded{file, m.trace, m.born}
	if m.other == nil {
		other, readers, err := sqlite.Open(m.path, "mode=rw&_pragma=busy_timeout(60000)", 1)
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { other.Close(); readers.Close() })
		m.other = other
	}
	p.account = lease.NewAccount(site, lease.Options{
		Instance: p.id, Seq: func() uint64 { p.seq++; return p.seq }, Members: func() int { return p.members },
	})
	p.look()
	saved, err := file.Recall(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	meter, err := limit.New(m.spec)
	if err != nil {
		m.t.Fatal(err)
	}
	was, now := store.SavedBudget{}, m.clock()
	if i := slices.IndexFunc(saved, func(s store.SavedBudget) bool { return s.Key == key }); i >= 0 {
		was = saved[i]
		if meter, err = lease.Restore(now, m.spec, meter, was.State, was.Ahead); err != nil {
			m.t.Fatalf("%+v cannot be restored", was)
		}
	}
	p.meter = p.account.Durable(key, m.spec, meter, was.From)
	if !meter.Idle(now) {
		p.meter.(interface{ Lost(now time.Time) }).Lost(now)
	}
	m.living = append(m.living, p)
	return p
}

// look counts the processes, which File.Listen does ten times a second.
func (p *process) look() {
	if now := p.m.clock(); !now.Before(p.looks) {
		if pulse, err := p.file.Pulse(p.m.t.Context(), store.Member{ID: p.id}); err == nil {
			p.members = pulse.Members
		}
		p.looks = now.Add(100 * time.Millisecond)
	}
}

// begin begins a write, and waits until it is done or has read the clock, which it does before it waits
// for the file.
func (p *process) begin(f *flight) {
	busy := slices.ContainsFunc(append(p.late, p.flight), func(f *flight) bool { return f != nil && f.done != nil && f.arrives.IsZero() })
	for len(p.read) > 0 {
		<-p.read
	}
	f.done = make(chan error, 1)
	go func() {
		replies, err := p.store.Exchange(context.Background(), []store.Batch{f.batch})
		if err == nil {
			f.reply = &replies[0]
		}
		f.done <- err
	}()
	switch {
	case p.m.held == nil:
		p.m.written(f)
	case !busy: // otherwise it waits behind another write of the process
		<-p.read
	}
}

// written waits until a write is done.
func (m *machine) written(f *flight) {
	if f.done == nil || !f.arrives.IsZero() {
		return
	}
	f.err = <-f.done
	f.arrives = m.clock().Add(m.upTo(m.slow))
}

// lock has somebody else hold the file for a time.
func (m *machine) lock(d time.Duration) {
	tx, err := m.other.BeginTx(m.t.Context(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.held, m.untilH = tx, m.clock().Add(d)
}

// release ends that, and all that waited is written.
func (m *machine) release() {
	if m.held == nil {
		return
	}
	if err := m.held.Rollback(); err != nil {
		m.t.Fatal(err)
	}
	m.held = nil
	m.settle()
}

// settle waits until all that has begun is written.
func (m *machine) settle() {
	for _, p := range m.living {
		for _, f := range append(p.late, p.flight) {
			if f != nil {
				m.written(f)
			}
		}
	}
}

var errLate = errors.New("no answer in time")

// step has a process do what there is to do now.
func (p *process) step() {
	m, now := p.m, p.m.clock()
	p.look()
	for _, f := range p.late {
		if f.done == nil && !now.Before(f.begins) {
			p.begin(f)
		}
	}
	p.late = slices.DeleteFunc(p.late, func(f *flight) bool { return !f.arrives.IsZero() })
	if f := p.flight; f != nil {
		if f.done == nil && !now.Before(f.begins) {
			p.begin(f)
		}
		switch {
		case !f.arrives.IsZero() && !now.Before(f.arrives):
			p.flight, p.missed = nil, 0
			p.account.Receive(now, f.reply, f.err)
		case !now.Before(f.ends):
			p.flight = nil
			p.missed++
			if f.arrives.IsZero() {
				p.late = append(p.late, f)
			}
			p.account.Receive(now, nil, errLate)
		}
	}
	p.take()
	if p.flight != nil {
		return
	}
	if b, ok := p.account.Batch(now); ok {
		f := &flight{batch: b, begins: now.Add(m.upTo(m.asks)), ends: now.Add(2 * time.Second)}
		// For longer, a process goes by what it knows.
		if p.missed < 4 && m.random.Float64() < m.unheard {
			f.ends = now.Add(20*time.Millisecond + m.upTo(500*time.Millisecond))
			if m.random.IntN(3) == 0 {
				f.begins = f.ends.Add(m.upTo(time.Second)) // it is done later than it was waited for
			}
		}
		p.flight = f
		if f.begins.Equal(now) {
			p.begin(f)
		}
	}
}

// take has requests go that may, and gives a few of them back.
func (p *process) take() {
	now, total := p.m.clock(), int64(0)
	for _, n := range p.waiting {
		total += n
	}
	for len(p.waiting) > 0 {
		n := p.waiting[0]
		if at, ok := p.meter.When(now, n); !ok || at.After(now) {
			break
		}
		p.waiting = p.waiting[1:]
		total -= n
		p.meter.Take(now, n)
		if p.m.random.IntN(20) == 0 {
			p.meter.Give(now, now, n)
			continue
		}
		p.m.trace.took(now, n)
	}
	p.meter.(interface{ Demand(time.Time, int64) }).Demand(now, total)
}

// leave ends a process: it returns what it has not used, or is killed with it.
func (m *machine) leave(p *process, killed bool) {
	m.t.Helper()
	m.release()
	if p.flight != nil && p.flight.done != nil {
		m.written(p.flight)
	}
	if !killed {
		if f := p.flight; f != nil {
			if f.done == nil {
				p.begin(f)
			}
			p.account.Receive(m.clock(), f.reply, f.err)
		}
		p.account.Release(m.clock())
		if b, ok := p.account.Batch(m.clock()); ok {
			p.begin(&flight{batch: b})
		}
	}
	m.trace.became(ends, p.id, func() { p.file.Close() })
	m.living = slices.DeleteFunc(m.living, func(o *process) bool { return o == p })
}

// run has the processes work for a time.
func (m *machine) run(steps int, rate float64, largest int64, comeAndGo bool) {
	for range steps {
		m.now.Add(m.random.Int64N(int64(20 * time.Millisecond)))
		if m.held != nil && !m.clock().Before(m.untilH) {
			m.release()
		}
		x := m.random.IntN(300)
		switch {
		case m.held == nil && x < 6 && m.hold > 0:
			m.lock(m.upTo(m.hold))
		case m.held == nil && x == 6 && comeAndGo && len(m.living) < 5:
			m.join()
		case x == 7 && comeAndGo && len(m.living) > 2:
			m.leave(m.living[m.random.IntN(len(m.living))], m.random.IntN(2) == 0)
		}
		m.random.Shuffle(len(m.living), func(i, j int) { m.living[i], m.living[j] = m.living[j], m.living[i] })
		for _, p := range m.living {
			if m.random.IntN(30) == 0 {
				p.rate = []float64{0, rate, 1}[m.random.IntN(3)]
			}
			if m.random.Float64() < p.rate && len(p.waiting) < 50 {
				p.waiting = append(p.waiting, 1+m.random.Int64N(largest))
			}
			p.step()
		}
	}
	m.release()
	m.settle()
}

// late is how long a request may be on its way.
func late(spec limit.Spec) time.Duration {
	switch spec.As {
	case limit.Rolling, limit.Fixed:
		return margin(spec.Window)
	case limit.Bucket:
		return min(margin(spec.Window), spec.Window*time.Duration(spec.Burst-1)/time.Duration(spec.Amount))
	}
	return 0
}

// Two to five processes of one machine, with a file that others hold for a while, with writes that are late
// and answers that do not come in time, and with processes that come, end and are killed: what
// they ask and are answered is what a store would that does one thing after the other, and no window
// of the limit has too much, however late requests arrive.
func TestHistoriesOfProcessesThatShareAFile(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, time.March, 15, 0, 0, 0, 0, time.UTC)
	for _, as := range []limit.As{limit.Fixed, limit.Rolling, limit.FirstUse, limit.Quota, limit.Bucket, limit.Paced} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			units, writes := int64(0), 0
			for seed := range uint64(histories(4)) {
				r := rand.New(rand.NewPCG(seed, 2))
				spec := limit.Spec{As: as, Amount: 1 + r.Int64N(60), Window: []time.Duration{time.Second, 5 * time.Second}[r.IntN(2)]}
				largest := min(1+r.Int64N(3), spec.Amount)
				if as == limit.Bucket {
					spec.Burst = largest + r.Int64N(spec.Amount-largest+1)
				}
				if as == limit.Quota {
					spec.Window, spec.Period = 0, limit.Day
				}
				m := newMachine(t, seed, spec, midnight.Add(-3*time.Second))
				m.unheard, m.asks = []float64{0, 0, 0.1, 0.3}[r.IntN(4)], []time.Duration{0, 5 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)]
				m.slow, m.hold = []time.Duration{0, 30 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)], []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond}[r.IntN(3)]
				for range 2 + r.IntN(4) {
					m.join()
				}
				m.run(800, 0.05+r.Float64(), largest, r.IntN(2) == 0)
				m.trace.linear(t)
				if over, which := (promise{spec, late(spec)}).over(m.trace.uses); over > 0 {
					t.Errorf("%d over: %s", over, which)
				}
				if t.Failed() {
					t.Fatalf("seed %d: %+v", seed, spec)
				}
				units, writes = units+total(m.trace.uses), writes+len(m.trace.operations)
			}
			t.Logf("%d units, %d operations", units, writes)
			if units == 0 {
				t.Error("nothing was used")
			}
		})
	}
}
