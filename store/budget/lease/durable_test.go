package lease_test

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// journal is a file that writes down what accounts say: in order, some time later, and
// without a word to who has crashed by then.
type journal struct {
	state []byte
	ahead int64
	seq   uint64
	n     int // records that were written
	most  int64
}

func (j *journal) write(b store.Batch) *store.Reply {
	r := &store.Reply{Generation: "file"}
	for _, a := range b.Asks {
		j.n++
		j.state, j.ahead, j.seq = a.State, a.Want, a.Seq
		j.most = max(j.most, a.Want)
		r.Answers = append(r.Answers, store.Answer{Key: a.Key, Seq: a.Seq, Granted: a.Want, Holders: 1})
	}
	return r
}

// process is a life of a program with one kept meter.
type process struct {
	account *lease.Account
	meter   limit.Meter
	queue   int
	batch   *store.Batch
	reply   *store.Reply
	sent    time.Time
}

func start(now time.Time, spec limit.Spec, j *journal, seq func() uint64) (*process, error) {
	m, err := limit.New(spec)
	if err != nil {
		return nil, err
	}
	if j.n > 0 {
		if m, err = lease.Restore(now, spec, m, j.state, j.ahead); err != nil && len(j.state) > 0 {
			return nil, err
		}
	}
	a := lease.NewAccount("site", lease.Options{Instance: "one", Seq: seq})
	return &process{account: a, meter: a.Durable("requests", spec, m, store.Origin{})}, nil
}

func exact() *rapid.Generator[limit.Spec] {
	return rapid.Custom(func(t *rapid.T) limit.Spec {
		s := limit.Spec{
			As:     rapid.SampledFrom([]limit.As{limit.Rolling, limit.Fixed, limit.Quota, limit.Bucket, limit.FirstUse}).Draw(t, "as"),
			Amount: rapid.Int64Range(1, 200).Draw(t, "amount"),
			Window: rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(t, "window"),
		}
		if s.As == limit.Quota {
			s.Window, s.Period = 0, limit.Day
		}
		return s
	})
}

type arrival struct {
	at time.Time
	n  int64
}

func TestAKeptMeterNeverAllowsMoreAcrossCrashes(t *testing.T) {
	went, crashes, written := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		spec := exact().Draw(t, "spec")
		rnd := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		rate := rapid.Float64Range(0.5, 200).Draw(t, "rate")
		slow := rapid.Int64Range(1, int64(40*time.Millisecond)).Draw(t, "slow")
		fragile := rapid.Float64Range(0, 0.02).Draw(t, "fragile")
		now, seq := begin, uint64(0)
		if spec.As == limit.Quota {
			now = now.Truncate(24 * time.Hour).Add(24*time.Hour - 10*time.Second)
		}
		next := func() uint64 { seq++; return seq }
		j := &journal{}
		p, err := start(now, spec, j, next)
		if err != nil {
			t.Fatal(err)
		}
		var sent []arrival
		for range 3000 {
			wait := time.Duration(rnd.ExpFloat64() / rate * float64(time.Second) / 2)
			if p.batch != nil {
				wait = min(wait, 5*time.Millisecond) // the file answers within its time
			}
			now = now.Add(wait)
			switch x := rnd.Float64(); {
			case x < fragile: // it crashes; what was on its way to the file may be there or not
				crashes++
				if p.batch != nil && rnd.Intn(2) == 0 {
					j.write(*p.batch)
				}
				now = now.Add(time.Duration(rnd.Int63n(int64(time.Second))))
				if p, err = start(now, spec, j, next); err != nil {
					t.Fatal(err)
				}
			case x < 0.7 && p.queue < 20:
				p.queue++
			}
			for p.queue > 0 {
				n := 1 + rnd.Int63n(max(spec.Amount/10, 1))
				at, ok := p.meter.When(now, n)
				if !ok || at.After(now) {
					break
				}
				p.queue--
				p.meter.Take(now, n)
				switch rnd.Intn(10) {
				case 0:
					p.meter.Give(now, now, n)
					continue
				case 1:
					p.meter.Settle(now, now, n, n-1)
					n--
				}
				p.meter.Done(now, now, n, limit.Success)
				sent = append(sent, arrival{now, n})
				went++
			}
			if b, ok := p.account.Batch(now); ok {
				p.batch, p.reply, p.sent = &b, nil, now
			}
			if p.batch == nil {
				continue
			}
			late := now.Sub(p.sent) > time.Duration(slow)
			if p.reply == nil && (late || rnd.Intn(4) == 0) {
				p.reply = j.write(*p.batch)
			}
			switch {
			case rnd.Intn(50) == 0: // nobody hears whether it was written
				p.batch = nil
				p.account.Receive(now, nil, errors.New("slow"))
				// The promise holds while the file answers: nothing goes until it does.
				now = settle(now, p, j)
			case late || p.reply != nil && rnd.Intn(4) == 0:
				p.account.Receive(now, p.reply, nil)
				p.batch = nil
			}
		}
		written += j.n
		if wrong := exceeded(spec, sent); wrong != "" {
			t.Fatalf("%+v: %s", spec, wrong)
		}
	})
	t.Logf("%d requests went, %d crashes, %d records", went, crashes, written)
}

// settle lets the file answer again.
func settle(now time.Time, p *process, j *journal) time.Time {
	for range 20 {
		now = now.Add(10 * time.Millisecond)
		if b, ok := p.account.Batch(now); ok {
			p.account.Receive(now, j.write(b), nil)
			return now
		}
	}
	return now
}

// exceeded says where a server would have counted too much.
func exceeded(spec limit.Spec, sent []arrival) string {
	switch spec.As {
	case limit.Fixed, limit.Quota:
		width := spec.Window
		if spec.As == limit.Quota {
			width = 24 * time.Hour
		}
		sums := map[time.Time]int64{}
		for _, s := range sent {
			w := s.at.Truncate(width)
			if sums[w] += s.n; sums[w] > spec.Amount {
				return fmt.Sprintf("%d in the window of %v", sums[w], s.at)
			}
		}
	case limit.Bucket:
		level, last := float64(spec.Amount), time.Time{}
		for _, s := range sent {
			if !last.IsZero() {
				level = min(level+s.at.Sub(last).Seconds()*float64(spec.Amount)/spec.Window.Seconds(), float64(spec.Amount))
			}
			last = s.at
			if level -= float64(s.n); level < -1e-3 {
				return fmt.Sprintf("%.3f too much at %v", -level, s.at)
			}
		}
	case limit.FirstUse:
		sum, end := int64(0), time.Time{}
		for _, s := range sent {
			if !s.at.Before(end) {
				sum, end = 0, s.at.Add(spec.Window)
			}
			if sum += s.n; sum > spec.Amount {
				return fmt.Sprintf("%d in the window until %v", sum, end)
			}
		}
	default:
		sum, first := int64(0), 0
		for _, s := range sent {
			for ; s.at.Sub(sent[first].at) >= spec.Window; first++ {
				sum -= sent[first].n
			}
			if sum += s.n; sum > spec.Amount {
				return fmt.Sprintf("%d within a window that ends at %v", sum, s.at)
			}
		}
	}
	return ""
}

// drive runs a kept meter for a while, with a file that takes two milliseconds.
func drive(t *testing.T, spec limit.Spec, each time.Duration, n int, j *journal) (p *process, now time.Time, waits int) {
	seq := uint64(0)
	now = begin
	p, err := start(now, spec, j, func() uint64 { seq++; return seq })
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		now = now.Add(each)
		if p.batch != nil && now.Sub(p.sent) >= 2*time.Millisecond {
			p.account.Receive(now, j.write(*p.batch), nil)
			p.batch = nil
		}
		if at, _ := p.meter.When(now, 1); at.After(now) {
			waits++
		} else {
			p.meter.Take(now, 1)
			p.meter.Done(now, now, 1, limit.Success)
		}
		if b, ok := p.account.Batch(now); ok {
			p.batch, p.sent = &b, now
		}
	}
	return p, now, waits
}

func TestAHotSiteNeverWaitsForItsJournal(t *testing.T) {
	j := &journal{}
	_, _, waits := drive(t, limit.Spec{As: limit.Rolling, Amount: 1_000_000, Window: time.Minute}, 500*time.Microsecond, 20_000, j)
	t.Logf("%d records and %d waits for 20000 requests, leases of up to %d", j.n, waits, j.most)
	if j.n > 500 || waits > 200 {
		t.Errorf("%d records and %d waits", j.n, waits)
	}
}

func TestACrashLosesAtMostOneLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := exact().Draw(t, "spec")
		spec.As, spec.Period, spec.Window = limit.Fixed, "", time.Hour
		spec.Amount = rapid.Int64Range(1, 5000).Draw(t, "amount")
		n := rapid.IntRange(1, 1000).Draw(t, "requests")
		each := time.Duration(rapid.Int64Range(int64(100*time.Microsecond), int64(100*time.Millisecond)).Draw(t, "each"))
		j := &journal{}
		p, now, _ := drive(nil, spec, each, n, j)
		before := lease.Inside(p.meter).Left(now)
		ahead := j.ahead
		again, err := start(now, spec, j, nil)
		if err != nil {
			t.Fatal(err)
		}
		after := again.meter.Left(now)
		if after > before || before-after > ahead || ahead > max(spec.Amount/200, 1)+1 {
			t.Fatalf("%d were left and %d are, with %d ahead of %d", before, after, ahead, spec.Amount)
		}
	})
}

func TestAKeptMeterServesOnWhileItsFileIsFull(t *testing.T) {
	now, seq := begin, uint64(0)
	j := &journal{}
	spec := limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Hour}
	p, _ := start(now, spec, j, func() uint64 { seq++; return seq })
	for waited := time.Duration(0); waited < time.Second; { // it is looked for again and again
		at, _ := p.meter.When(now, 1)
		if !at.After(now) {
			t.Fatalf("the file is waited for until %v", now)
		}
		waited += at.Sub(now)
		now = at
	}
	if at, _ := p.meter.When(now, 1); at.After(now) {
		t.Error("a file that does not answer is waited for for longer than a second")
	}
	p.account.Batch(now)
	p.account.Receive(now, nil, errors.New("no space left"))
	for range 40 {
		if at, _ := p.meter.When(now, 1); at.After(now) {
			t.Fatal("a full file stops requests")
		}
		p.meter.Take(now, 1)
	}
	now = p.account.Due()
	b, ok := p.account.Batch(now)
	if !ok {
		t.Fatal("it is not tried again")
	}
	p.account.Receive(now, j.write(b), nil)
	again, err := start(now, spec, j, nil)
	if left := again.meter.Left(now); err != nil || left > 60 {
		t.Errorf("%d are left after it has caught up: %v", left, err)
	}
}

func TestAnIdleMeterHasNothingInItsJournal(t *testing.T) {
	j := &journal{}
	spec := limit.Spec{As: limit.Rolling, Amount: 1000, Window: time.Minute}
	p, now, _ := drive(t, spec, time.Millisecond, 100, j)
	if p.batch != nil {
		p.account.Receive(now, j.write(*p.batch), nil)
	}
	for range 10 {
		now = now.Add(time.Second)
		if b, ok := p.account.Batch(now); ok {
			p.account.Receive(now, j.write(b), nil)
		}
	}
	if j.ahead != 0 || p.account.Due() != (time.Time{}) {
		t.Errorf("%d are ahead, and there is something to say at %v", j.ahead, p.account.Due())
	}
	again, err := start(now, spec, j, nil)
	if a, b := again.meter.Left(now), lease.Inside(p.meter).Left(now); err != nil || a != b {
		t.Errorf("%d are left, and %d after a restart: %v", b, a, err)
	}
}

// A process was killed just after the first request of a window: what it may have taken counts, and the rest may go.
func TestAKillLosesOfAFirstUseLimitWhatWasAhead(t *testing.T) {
	spec := limit.Spec{As: limit.FirstUse, Amount: 200, Window: time.Hour}
	m, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = lease.Restore(begin, spec, m, nil, 3); err != nil || m.Left(begin) != 197 {
		t.Errorf("%d of 200 are left after 3 that may have been taken, %v", m.Left(begin), err)
	}
	later := begin.Add(59 * time.Minute)
	m.Take(later, 197)
	if at, _ := m.When(begin.Add(time.Hour), 4); at.Before(later.Add(time.Hour)) {
		t.Errorf("four may go after %v", at.Sub(later))
	}
}

func TestWhatMakesNoSenseIsTakenAllTheSame(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Rolling, Amount: 100, Window: time.Hour},
		{As: limit.Fixed, Amount: 100, Window: time.Hour},
		{As: limit.Quota, Amount: 100, Period: limit.Month},
		{As: limit.Bucket, Amount: 100, Window: time.Hour},
		{As: limit.FirstUse, Amount: 100, Window: time.Hour},
		{As: limit.Paced, Amount: 100, Window: time.Hour},
	} {
		for _, ahead := range []int64{-1, 0, 7, 1 << 62} {
			m, err := limit.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			if m, err = lease.Restore(begin, spec, m, []byte("nonsense"), ahead); err == nil {
				t.Errorf("%s: nonsense is no error", spec.As)
			}
			if left := m.Left(begin); ahead > 0 && left > max(100-ahead, 0) {
				t.Errorf("%s: %d are left of 100 after %d", spec.As, left, ahead)
			}
		}
	}
}

// A limit that the operator changes is as used as it was, whatever the journal knows.
func TestAKeptMeterThatIsChangedIsAsUsedAsItWas(t *testing.T) {
	for _, as := range []limit.As{limit.Rolling, limit.Fixed, limit.Quota, limit.FirstUse} {
		spec := limit.Spec{As: as, Amount: 40, Window: time.Hour}
		if as == limit.Quota {
			spec.Window, spec.Period = 0, limit.Day
		}
		seq := uint64(0)
		p, err := start(begin, spec, &journal{}, func() uint64 { seq++; return seq })
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			p.meter.Take(begin, 1)
		}
		for _, c := range []struct{ amount, left int64 }{{35, 5}, {20, 0}, {60, 40}} {
			spec.Amount = c.amount
			fresh, _ := limit.New(spec)
			changing := p.meter.(interface {
				Change(now time.Time, spec limit.Spec, m limit.Meter) bool
			})
			if !changing.Change(begin, spec, fresh) {
				t.Fatalf("%s: it is another meter", as)
			}
			if got := p.meter.Left(begin); got > c.left || c.amount < 40 && got != c.left {
				t.Errorf("%s: %d of %d are left, want %d", as, got, c.amount, c.left)
			}
		}
		if _, ok := p.account.Batch(begin); !ok {
			t.Errorf("%s: the journal is not told", as)
		}
	}
}

// Who looks whether more could go has the journal asked for it. That must not be left in
// it by a process that ends, or each restart would cost some of a quota.
func TestAProcessThatEndsLeavesNothingInItsJournal(t *testing.T) {
	now, j, seq := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), &journal{}, uint64(0)
	next := func() uint64 { seq++; return seq }
	p, err := start(now, limit.Spec{As: limit.Fixed, Amount: 50, Window: time.Hour}, j, next)
	if err != nil {
		t.Fatal(err)
	}
	say := func() (said bool) {
		b, ok := p.account.Batch(now)
		if ok {
			p.account.Receive(now, j.write(b), nil)
		}
		return ok
	}
	p.meter.When(now, 1)
	say()
	now = now.Add(time.Millisecond)
	p.meter.Take(now, 1)
	for range 3 { // more than there is ahead
		p.meter.When(now, 1)
		p.meter.When(now, 2)
		p.meter.When(now, 3)
	}
	p.account.Release(now)
	say() // which is the last word
	if j.ahead != 0 {
		t.Errorf("%d are in the journal beyond what was taken", j.ahead)
	}
	if p, err = start(now, limit.Spec{As: limit.Fixed, Amount: 50, Window: time.Hour}, j, next); err != nil {
		t.Fatal(err)
	}
	if left := p.meter.Left(now); left != 49 {
		t.Errorf("%d are left after the restart", left)
	}
}

// A quota that is used in bursts, by a process that is killed in the middle of each: what
// was written ahead is lost each time, and all kills together cost a small part of it.
func TestManyCrashesCostLittleOfAQuota(t *testing.T) {
	for _, amount := range []int64{10_000, 100_000} {
		spec := limit.Spec{As: limit.Quota, Amount: amount, Period: limit.Month}
		now, j, seq, went := begin, &journal{}, uint64(0), int64(0)
		const kills = 160
		for range kills {
			p, err := start(now, spec, j, func() uint64 { seq++; return seq })
			if err != nil {
				t.Fatal(err)
			}
			for range 20 + rand.Intn(200) { // a thousand a second
				now = now.Add(time.Millisecond)
				if p.batch != nil && now.Sub(p.sent) >= 2*time.Millisecond {
					p.account.Receive(now, j.write(*p.batch), nil)
					p.batch = nil
				}
				if at, _ := p.meter.When(now, 1); !at.After(now) && rand.Intn(int(300_000/amount)) == 0 {
					p.meter.Take(now, 1)
					went++
				}
				if b, ok := p.account.Batch(now); ok {
					p.batch, p.sent = &b, now
				}
			}
			if p.batch != nil { // it is written, and nobody hears of it
				j.write(*p.batch)
			}
		}
		p, err := start(now, spec, j, nil)
		if err != nil {
			t.Fatal(err)
		}
		lost := amount - p.meter.Left(now) - went
		t.Logf("of %d: %d went, %d kills have lost %d, which is %.1f %%", amount, went, kills, lost, 100*float64(lost)/float64(amount))
		if lost < 0 || lost > 2*kills+amount/50 {
			t.Errorf("of %d: %d went and %d are lost", amount, went, lost)
		}
	}
}
