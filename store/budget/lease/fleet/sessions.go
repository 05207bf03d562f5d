package fleet

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// Sessions is work as crawlers do it: now and then one of the instances has a list of
// pages of one site, and fetches them, some at a time; the others do something else.
type Sessions struct {
	Options   Options                                // Taken and Clock may be set
	Store     func(now func() time.Time) store.Store // with the clock of the fleet
	Instances int
	Key       string        // of the budget that is measured; it is as fixed
	Units     []Need        // what requests need, one after the other; nil: one of Key
	AtOnce    int           // how many sessions there are at any time; 0: 4
	Length    int           // requests of one, on average; 0: 50
	Parallel  int           // of these at a time; 0: 4
	Lasts     time.Duration // a request, on average; 0: 200 ms
	Warm      int           // windows before measuring begins
	Windows   int           // that are measured
}

// Result has the measured values.
type Result struct {
	Instances   int
	Requests    int           // that went
	Exchanges   int           // of batches
	PerRequest  float64       // exchanges
	Utilisation float64       // of all windows
	Worst       float64       // of one
	Over        int64         // units more than the budget, in all windows
	Wait        time.Duration // of a request, on average
}

// Run runs the sessions and measures them.
func (s Sessions) Run() Result {
	var spec limit.Spec
	for _, b := range s.Options.Budgets {
		if b.Key == s.Key {
			spec = b.Spec
		}
	}
	if s.Units == nil {
		s.Units = []Need{{s.Key: 1}}
	}
	s.AtOnce, s.Length, s.Parallel = cmp.Or(s.AtOnce, 4), cmp.Or(s.Length, 50), cmp.Or(s.Parallel, 4)
	s.Lasts = cmp.Or(s.Lasts, 200*time.Millisecond)
	sums, waited := map[int64]int64{}, time.Duration(0)
	o, taken, measuring := s.Options, s.Options.Taken, false
	o.Taken = func(t Take) {
		if taken != nil {
			taken(t)
		}
		if t.Key == s.Key {
			sums[t.At.UnixNano()/int64(spec.Window)] += t.N
		}
		if measuring && t.Key == s.Key {
			waited += t.Waited
		}
	}
	f := New(o)
	f.Store = s.Store(f.Now)
	f.Start(s.Instances)
	f.sessions(s)

	// Measured are whole windows.
	f.Run(f.now.Truncate(spec.Window).Add(spec.Window).Sub(f.now))
	f.Run(time.Duration(s.Warm) * spec.Window)
	first := f.now.UnixNano() / int64(spec.Window)
	before := f.Count
	measuring = true
	f.Run(time.Duration(s.Windows) * spec.Window)
	r := Result{
		Instances: s.Instances, Requests: f.Count.Requests - before.Requests,
		Exchanges: f.Count.Exchanges - before.Exchanges, Worst: 1,
	}
	total := int64(0)
	for w := first; w < first+int64(s.Windows); w++ {
		total += sums[w]
		r.Over += max(sums[w]-spec.Amount, 0)
		r.Worst = min(r.Worst, float64(sums[w])/float64(spec.Amount))
	}
	r.Utilisation = float64(total) / float64(spec.Amount) / float64(s.Windows)
	if r.Requests > 0 {
		r.PerRequest = float64(r.Exchanges) / float64(r.Requests)
		r.Wait = waited / time.Duration(r.Requests)
	}
	return r
}

// sessions runs a constant number of sessions, each at an instance that has nothing else
// to do, if there is one.
func (f *Fleet) sessions(s Sessions) {
	busy := make([]int, s.Instances)
	units := 0
	var begin func()
	begin = func() {
		i := f.Rand.Intn(s.Instances)
		for tries := 0; tries < 3 && busy[i] > 0; tries++ {
			i = f.Rand.Intn(s.Instances)
		}
		busy[i]++
		left, under := 1+int(f.Rand.ExpFloat64()*float64(s.Length)), min(s.Parallel, s.Length)
		var next func()
		next = func() {
			if left--; left >= 0 {
				units++
				f.request(i, s.Units[units%len(s.Units)], func() {
					f.At(time.Duration(f.Rand.Int63n(int64(2*s.Lasts)+1)), next)
				})
				return
			}
			if under--; under == 0 {
				busy[i]--
				f.At(time.Duration(f.Rand.Int63n(int64(s.Lasts)+1)), begin)
			}
		}
		for range under {
			next()
		}
	}
	for range s.AtOnce {
		f.At(time.Duration(f.Rand.Int63n(int64(s.Lasts)+1)), begin)
	}
}
