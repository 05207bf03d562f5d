package ledger

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

var epoch = time.Unix(1_700_000_000, 123_456_789)

// origin is a server: what it does with a request that arrives at a time, in
// seconds since epoch. said is relative to that time.
type origin interface {
	arrive(at float64) reply
}

// reply is what a server answers.
type reply struct {
	refused     bool
	limit, left float64 // -1: not said
	used        float64
	reset       float64 // seconds after epoch, 0: not said
	resetIn     float64 // seconds; negative: not said
	resolution  float64
	window      float64
	rate        float64
	retryIn     float64 // seconds; 0: not said
	date        float64 // the server's time, in whole seconds after epoch; 0: not said
}

// silentReply is a reply that says nothing.
func silentReply() reply { return reply{limit: -1, left: -1, used: -1, resetIn: -1} }

func (r reply) said(now time.Time) learn.Limit {
	var s learn.Limit
	if r.limit >= 0 {
		s.Limit = learn.Amount{N: r.limit, Known: true}
	}
	if r.left >= 0 {
		s.Remaining = learn.Amount{N: r.left, Known: true}
	}
	if r.used >= 0 {
		s.Used = learn.Amount{N: r.used, Known: true}
	}
	if r.reset > 0 {
		s.Reset, s.Skew.Reset = seconds(r.reset), seconds(r.reset)
		if r.date != 0 { // what learn makes of Date
			s.Skew.Known, s.Skew.Most = true, now.Sub(seconds(r.date))
			if s.Skew.Most.Abs() > 2*time.Second {
				s.Skew.Applied = s.Skew.Most
			}
			s.Reset = s.Reset.Add(s.Skew.Applied)
		}
		if s.Reset.Before(now) {
			s.Reset = now
		}
	}
	if r.resetIn >= 0 {
		s.Reset, s.Relative = now.Add(time.Duration(r.resetIn*1e9)), true
	}
	s.Resolution = time.Duration(r.resolution * 1e9)
	s.Window = time.Duration(r.window * 1e9)
	s.Rate = r.rate
	return s
}

func seconds(f float64) time.Time { return epoch.Add(time.Duration(f * 1e9)) }

// moment is something that happens.
type moment struct {
	at   float64
	what int // 0 arrives, 1 is heard, 2 is over, 3 another arrives
	sent float64
	r    reply
}

type agenda []moment

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(moment)) }
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// run is a simulation of a client that always has a request to send.
type run struct {
	origin   origin
	meter    limit.Meter
	hear     func(now time.Time, sent time.Time, r reply) // for meters that are no ledgers
	flying   int
	fastest  float64 // latency, in seconds, both ways
	slowest  float64
	begin    float64
	length   float64
	foreign  float64 // requests a second of somebody else's
	random   *rand.Rand
	trace    func(string)
	thinking float64 // seconds between requests, at most
	waiting  int     // requests that wait beside those in flight
}

// result is what came of it.
type result struct {
	sent, refused, served int
	firstAnswer           float64
	early                 int // refused though sent after the first answer
	higher                int
	foreign               int64 // said
	others                int   // served
	times                 []float64
	refusals              []float64
}

func (s *run) do() result {
	var res result
	var todo agenda
	now, flying := s.begin, 0
	if l, ok := s.meter.(*Ledger); ok && s.waiting > 0 {
		l.Demand(seconds(now), int64(s.waiting))
	}
	latency := func() float64 { return (s.fastest + s.random.Float64()*(s.slowest-s.fastest)) / 2 }
	if s.foreign > 0 {
		heap.Push(&todo, moment{at: now + s.random.ExpFloat64()/s.foreign, what: 3})
	}
	res.firstAnswer = math.Inf(1)
	at := func(f float64) time.Time { return seconds(f) }
	nextThought := now
	for now < s.begin+s.length {
		wake := math.Inf(1)
		for flying < s.flying {
			if now < nextThought {
				wake = nextThought
				break
			}
			t, ok := s.meter.When(at(now), 1)
			if !ok {
				panic("never")
			}
			if t.After(at(now)) {
				wake = t.Sub(epoch).Seconds()
				if wake <= now {
					wake = now + 1e-9
				}
				break
			}
			s.meter.Take(at(now), 1)
			flying++
			res.sent++
			if s.thinking > 0 {
				nextThought = now + s.random.Float64()*s.thinking
			}
			heap.Push(&todo, moment{at: now + latency(), what: 0, sent: now})
		}
		if len(todo) == 0 && math.IsInf(wake, 1) {
			panic("nothing will ever happen")
		}
		if len(todo) == 0 || wake < todo[0].at {
			now = wake
			continue
		}
		m := heap.Pop(&todo).(moment)
		now = m.at
		switch m.what {
		case 0:
			m.r = s.origin.arrive(now)
			m.what, m.at = 1, now+latency()
			heap.Push(&todo, m)
			if !m.r.refused {
				res.served++
				res.times = append(res.times, now)
			}
		case 1:
			res.firstAnswer = min(res.firstAnswer, now)
			if m.r.refused {
				res.refused++
				res.refusals = append(res.refusals, now)
				if m.sent >= res.firstAnswer {
					res.early++
				}
			}
			if s.trace != nil {
				s.trace(fmt.Sprintf("%.3f heard sent=%.3f %+v", now, m.sent, m.r))
			}
			if l, ok := s.meter.(*Ledger); ok {
				a := Answer{Sent: at(m.sent), Units: 1, Limit: m.r.said(at(now)), Refused: m.r.refused, Named: true}
				if m.r.retryIn > 0 {
					a.RetryAt = at(now).Add(time.Duration(m.r.retryIn * 1e9))
				}
				news := l.Update(at(now), a)
				if news.Higher {
					if s.trace != nil {
						s.trace("HIGHER")
					}
					res.higher++
				}
				res.foreign += news.Foreign
			} else if s.hear != nil {
				s.hear(at(now), at(m.sent), m.r)
			}
			m.what, m.at = 2, now+s.random.Float64()*0.01
			heap.Push(&todo, m)
		case 2:
			flying--
			o := limit.Success
			if m.r.refused {
				o = limit.Refused
			}
			s.meter.Done(at(now), at(m.sent), 1, o)
		case 3:
			if !s.origin.arrive(now).refused {
				res.others++
			}
			heap.Push(&todo, moment{at: now + s.random.ExpFloat64()/s.foreign, what: 3})
		}
	}
	return res
}

// fixedOrigin counts in windows of a fixed length.
type fixedOrigin struct {
	limit, window float64
	aligned       bool    // else a window begins with its first request
	resolution    float64 // the resets are said in such steps
	ceil          bool
	rounding      string // "floor", "ceil" or "round"; "": by ceil
	relative      bool
	quiet         bool // says no reset
	length        bool // says its window
	retry         bool
	skew          float64 // error of the correction
	dated         bool    // answers have Date
	clock         float64 // how much the server's clock is ahead; it is dated

	start, used float64
	begun       bool
	windows     []float64 // used in each that is over
	begins      []float64
}

func (o *fixedOrigin) arrive(at float64) reply {
	if !o.begun || at >= o.start+o.window {
		if o.begun {
			o.windows = append(o.windows, o.used)
		}
		o.start, o.begun, o.used = at, true, 0
		if o.aligned {
			o.start = math.Floor(at/o.window) * o.window
		}
		o.begins = append(o.begins, o.start)
	}
	r := silentReply()
	r.limit = o.limit
	if o.used >= o.limit {
		r.refused, r.left = true, 0
		if o.retry {
			r.retryIn = math.Ceil(o.start + o.window - at)
		}
	} else {
		o.used++
		r.left = o.limit - o.used
	}
	if o.length {
		r.window = o.window
	}
	if o.quiet {
		return r
	}
	end := o.start + o.window
	round := math.Floor
	switch {
	case o.ceil, o.rounding == "ceil":
		round = math.Ceil
	case o.rounding == "round":
		round = math.Round
	}
	if o.relative {
		r.resetIn = end - at
		if o.resolution > 0 {
			r.resetIn, r.resolution = round(r.resetIn/o.resolution)*o.resolution, o.resolution
		}
		return r
	}
	r.reset = end
	if o.resolution > 0 {
		r.reset, r.resolution = round((r.reset+o.clock)/o.resolution)*o.resolution, o.resolution
	} else {
		r.reset += o.clock
	}
	if r.reset += o.skew; o.dated {
		r.date = math.Floor(at + o.clock)
	}
	return r
}

// share is the used part of the windows, from 0 to 1, without the first and the last.
func (o *fixedOrigin) share() float64 {
	if len(o.windows) < 3 {
		return math.NaN()
	}
	var sum float64
	for _, n := range o.windows[1:] {
		sum += n
	}
	return sum / (o.limit * float64(len(o.windows)-1))
}

// drip is a bucket: full is when it is full again.
type drip struct {
	limit, rate float64
	resolution  float64
	absolute    bool
	whole       bool // the time that is said is whole, not how long that is from now
	skew        float64
	mute        bool // says no reset
	saysRate    bool
	level, at   float64
	begun       bool
}

func (o *drip) arrive(at float64) reply {
	if !o.begun {
		o.level, o.begun = o.limit, true
	} else {
		o.level = min(o.limit, o.level+(at-o.at)*o.rate)
	}
	o.at = at
	r := silentReply()
	r.limit = o.limit
	if o.level < 1 {
		r.refused = true
		r.retryIn = (1 - o.level) / o.rate
	} else {
		o.level--
	}
	r.left = math.Floor(o.level)
	if o.saysRate {
		r.rate = o.rate
	}
	if !o.mute {
		in := (o.limit - o.level) / o.rate // until it is full
		if o.resolution > 0 {
			in, r.resolution = math.Ceil(in/o.resolution)*o.resolution, o.resolution
		}
		switch {
		case o.whole && o.absolute && o.resolution > 0:
			r.reset = math.Ceil((at+(o.limit-o.level)/o.rate)/o.resolution)*o.resolution + o.skew
		case o.absolute:
			r.reset = at + in + o.skew
		default:
			r.resetIn = in
		}
	}
	return r
}

// rolling counts what came in the last window.
type rolling struct {
	limit, window float64
	said          func(*reply)
	times         []float64
}

func (o *rolling) arrive(at float64) reply {
	for len(o.times) > 0 && at-o.times[0] >= o.window {
		o.times = o.times[1:]
	}
	r := silentReply()
	if float64(len(o.times)) >= o.limit {
		r.refused = true
	} else {
		o.times = append(o.times, at)
	}
	if o.said != nil {
		r.limit, r.left = o.limit, o.limit-float64(len(o.times))
		o.said(&r)
	}
	return r
}

// counter is a sliding window that is made of two fixed ones, of which the reset
// is the end of the later.
type counter struct {
	limit, window float64
	before, now   float64
	begin         float64
}

func (o *counter) arrive(at float64) reply {
	if begin := math.Floor(at/o.window) * o.window; begin > o.begin {
		o.before = 0
		if begin-o.begin <= o.window {
			o.before = o.now
		}
		o.now, o.begin = 0, begin
	}
	r := silentReply()
	r.limit, r.reset, r.resolution = o.limit, math.Floor(o.begin+o.window), 1
	sum := func() float64 { return o.before*(1-(at-o.begin)/o.window) + o.now }
	if sum()+1 > o.limit {
		r.refused, r.retryIn = true, o.window
	} else {
		o.now++
	}
	r.left = max(math.Floor(o.limit-sum()), 0)
	return r
}

// lost is the part of the windows' units that tests of their ends have cost, see hold.
func (s *run) lost() float64 {
	o := s.origin.(*fixedOrigin)
	p := &s.meter.(*Ledger).allowance.phase
	lost := p.lost
	if p.hold.sent > p.present.last {
		lost++ // the run ended before its answer came
	}
	return float64(lost) / (o.limit * float64(max(len(o.windows)-1, 1)))
}

func dice(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 7))
}
