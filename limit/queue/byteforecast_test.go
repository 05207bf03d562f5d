package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestAWaitForManyBytesIsForeseen(t *testing.T) {
	for name, c := range map[string]struct {
		spec      limit.Spec
		spent, n  int64
		at, pause time.Duration
		never     bool
	}{
		"what is there":       {spec: limit.Spec{As: limit.Fixed, Amount: 1 << 20, Window: time.Hour}, n: 1 << 20},
		"the next window":     {spec: limit.Spec{As: limit.Fixed, Amount: 1 << 20, Window: time.Hour}, spent: 1 << 20, n: 1, at: time.Hour, pause: time.Hour},
		"half and two more":   {spec: limit.Spec{As: limit.Fixed, Amount: 1 << 20, Window: time.Hour}, spent: 1 << 19, n: 2 << 20, at: 2 * time.Hour, pause: time.Hour},
		"smaller than a step": {spec: limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Minute}, spent: 100, n: 300, at: 3 * time.Minute, pause: time.Minute},
		"a bucket trickles":   {spec: limit.Spec{As: limit.Bucket, Amount: 1 << 20, Window: time.Minute, Burst: step}, spent: step, n: 1 << 20, at: time.Minute, pause: time.Minute*step/4>>20 + time.Minute/128},
		"a long way":          {spec: limit.Spec{As: limit.Bucket, Amount: 1 << 20, Window: time.Minute, Burst: step}, spent: step, n: 1 << 28, at: 256 * time.Minute, pause: time.Minute*step/4>>20 + time.Minute/128},
		"a day's quota":       {spec: limit.Spec{As: limit.Quota, Amount: 1 << 20, Period: limit.Day}, spent: 1 << 20, n: 1 << 20, at: 24 * time.Hour, pause: 24 * time.Hour},
		"longer than a life":  {spec: limit.Spec{As: limit.Fixed, Amount: 1, Window: time.Hour}, n: 1 << 50, never: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Bounds{}, nil)
				begin(24 * time.Hour)
				r := bytesOf(1, time.Hour)
				r.Limits[0][1].Spec = &c.spec
				source := g.ByteSource(r)
				defer source.Close()
				if c.spent > 0 {
					expect(t, draws(t, source, c.spent, c.spent), fmt.Sprint(c.spent, " after 0s"))
				}
				left := source.Left()
				at, pause, ok := source.Forecast(c.n)
				if ok == c.never {
					t.Fatalf("it is foreseen: %v", ok)
				}
				if source.Left() != left {
					t.Error("to look changes something")
				}
				if near := func(a, b time.Duration) bool { return (a - b).Abs() <= b/50+time.Millisecond }; ok &&
					(!near(time.Until(at), c.at) || !near(pause, c.pause)) {
					t.Errorf("after %v with a pause of %v", time.Until(at), pause)
				}
			})
		})
	}
}

// What nobody knows is not taken for late, and what a kept meter tells counts.
func TestWhatIsKeptElsewhereIsForeseenAsFarAsItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		begin(time.Hour)
		all := vaults{}
		r := bytesOf(1000, time.Hour)
		r.Limits[0][1].Source = externalFunc(all.keep)
		source := g.ByteSource(r)
		defer source.Close()
		if at, pause, ok := source.Forecast(1000); !ok || pause != 0 || !at.Equal(time.Now()) {
			t.Errorf("%v, %v, %v", time.Until(at), pause, ok)
		}
		all.last().Meter.Take(time.Now(), 1000)
		if at, pause, ok := source.Forecast(1000); !ok || pause < time.Hour || time.Until(at) != pause {
			t.Errorf("%v, %v, %v", time.Until(at), pause, ok)
		}
	})
}

// Whoever byte requests alone is not done before it was foreseen by much, and never later.
func TestWhatIsForeseenComesTrue(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			g := NewGate(Bounds{}, nil)
			r := Request{Site: "a", Limits: [][]Limit{nil}}
			for i := range 1 + random.IntN(2) {
				spec := limit.Spec{
					As:     []limit.As{limit.Fixed, limit.Rolling, limit.Bucket, limit.FirstUse}[random.IntN(4)],
					Amount: 1 + random.Int64N(1<<20), Window: time.Duration(1+random.IntN(100)) * time.Second,
				}
				r.Limits[0] = append(r.Limits[0], Limit{Name: fmt.Sprint(i), Of: Bytes, Spec: &spec})
			}
			source := g.ByteSource(r)
			defer source.Close()
			for range random.IntN(10) {
				time.Sleep(upTo(random, 10*time.Second))
				_, _ = source.Draw(nil, Draw{Most: 1 + random.Int64N(1<<18), Least: 1, Until: time.Now()})
			}
			time.Sleep(time.Second)
			n := random.Int64N(1 << 21)
			start := time.Now()
			at, pause, ok := source.Forecast(n)
			if !ok {
				t.Fatalf("seed %d: nobody knows", seed)
			}
			longest := time.Duration(0)
			for n > 0 {
				before := time.Now()
				got, err := source.Draw(nil, Draw{Most: n, Least: step})
				if err != nil {
					t.Fatal(err)
				}
				n -= got
				longest = max(longest, time.Since(before))
			}
			took, told := time.Since(start), at.Sub(start)
			if told > took+took/20+10*time.Millisecond || told < took-took/4-time.Second {
				t.Errorf("seed %d: it takes %v, not %v: %+v", seed, took, told, r.Limits[0])
			}
			if pause > longest+longest/20+10*time.Millisecond {
				t.Errorf("seed %d: the longest pause is %v, not %v: %+v", seed, longest, pause, r.Limits[0])
			}
		})
	}
}
