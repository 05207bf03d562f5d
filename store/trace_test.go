package store_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// A trace is a fleet over a network that loses, repeats and reorders: what is said to
// a store is said to a reference.Store as well, both answer the same, and what the instances
// may spend is never more than there is.
type trace struct {
	*rapid.T
	clock     *clock
	one       store.Store
	reference *reference.Store
	site      string
	budgets   []store.Ask // what does not change of an Ask
	instances []*instance
	way       []message         // under way to the stores
	births    map[string]string // :: those of the reference → those of one
	lost      int               // how often the stores have lost what they knew
	snapshot  reference.Snapshot
}

// instance is the other side of an Ask, as simple as it can be. It spends of each budget
// the units that it believes to have.
type instance struct {
	id      string
	seq     uint64
	life    int // how often the store had lost what it knew when it heard from it last; -1: never
	settled int // the life of the store in which it may want something
	has     []map[int64]int64
	waits   []uint64          // for the answer to this Ask
	past    []int64           // up to where it has forgotten, by its own clock
	spent   []map[int64]int64 // what that was
	birth   []string
	seen    []time.Time
	counted []store.Holding
	held    []int64
}

type message struct {
	from *instance
	life int
	b    store.Batch
}

func newTrace(t *rapid.T, c *clock, item store.Store, reference *reference.Store, site string) *trace {
	tr := &trace{T: t, clock: c, one: item, reference: reference, site: site, births: map[string]string{"": ""}}
	amount := rapid.SampledFrom([]int64{0, 1, 2, 3, 10, 100, 12345, 1 << 50})
	window := rapid.SampledFrom([]time.Duration{time.Second, time.Second / 3, time.Minute, 7*time.Millisecond + 1})
	tr.budgets = []store.Ask{
		{Key: "fixed", Kind: store.Fixed, Amount: amount.Draw(t, "fixed"), Window: window.Draw(t, "window")},
		{
			Key: "rolling", Kind: store.Rolling, Amount: amount.Draw(t, "rolling"), Window: window.Draw(t, "window"),
			Slots: rapid.SampledFrom([]int{0, 1, 3, 8}).Draw(t, "slots"),
		},
		{Key: "quota", Kind: store.Quota, Amount: amount.Draw(t, "quota")},
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "instances") {
		tr.instances = append(tr.instances, newInstance(tr, fmt.Sprintf("%s-%d", site, i)))
	}
	return tr
}

func newInstance(tr *trace, id string) *instance {
	in := &instance{id: id, life: -1, settled: tr.lost, waits: make([]uint64, len(tr.budgets))}
	for range tr.budgets {
		in.has, in.spent = append(in.has, map[int64]int64{}), append(in.spent, map[int64]int64{})
		in.past = append(in.past, 1<<63-1)
	}
	in.birth, in.seen, in.counted = make([]string, len(tr.budgets)), make([]time.Time, len(tr.budgets)), make([]store.Holding, len(tr.budgets))
	in.held = make([]int64, len(tr.budgets))
	return in
}

// edges are those of every minute.
func edges(now time.Time) []time.Time {
	begin := now.Truncate(time.Minute)
	list := []time.Time{begin.Add(-time.Minute)}
	for range 30 { // the time of a budget may be ahead
		list = append(list, list[len(list)-1].Add(time.Minute))
	}
	return list
}

// say sends the Batch of an instance.
func (tr *trace) say() {
	in := rapid.SampledFrom(tr.instances).Draw(tr.T, "who")
	b := store.Batch{Site: tr.site, Instance: in.id}
	few := rapid.Int64Range(0, 200)
	for i, a := range tr.budgets {
		if rapid.IntRange(0, 3).Draw(tr.T, "quiet") == 0 {
			continue
		}
		in.seq++
		in.waits[i], a.Seq = in.seq, in.seq
		a.Past, a.Birth, a.Seen, a.Counted, a.Held = in.past[i], in.birth[i], in.seen[i], in.counted[i], in.held[i]
		if a.Kind == store.Quota {
			a.Edges = edges(tr.clock.now())
		}
		for w, n := range in.has[i] {
			if rapid.IntRange(0, 3).Draw(tr.T, "gives back") == 0 {
				n = rapid.Int64Range(0, n).Draw(tr.T, "keeps")
				in.has[i][w] = n
			}
			a.Holds = append(a.Holds, store.Holding{Window: w, N: n})
		}
		slices.SortFunc(a.Holds, func(a, b store.Holding) int { return int(b.Window - a.Window) })
		if in.settled == tr.lost {
			a.Want, a.Ahead = few.Draw(tr.T, "want"), few.Draw(tr.T, "ahead")
			if rapid.IntRange(0, 9).Draw(tr.T, "greedy") == 0 {
				a.Want, a.Ahead = 1<<50, 1<<50
			}
			a.Waits = few.Draw(tr.T, "waits")
			a.Lasts = rapid.IntRange(-1, 10).Draw(tr.T, "lasts")
			a.Least = rapid.Int64Range(-1, 5).Draw(tr.T, "least")
		}
		b.Asks = append(b.Asks, a)
	}
	for range rapid.IntRange(0, 2).Draw(tr.T, "notes") {
		b.Notes = append(b.Notes, store.Note{
			Key:   rapid.SampledFrom([]string{"a", "b"}).Draw(tr.T, "key"),
			Until: tr.clock.now().Add(time.Duration(rapid.Int64Range(-1e9, 5e9).Draw(tr.T, "until"))),
			N:     rapid.Int64Range(-3, 3).Draw(tr.T, "n"),
			Text:  rapid.SampledFrom([]string{"", "x"}).Draw(tr.T, "text"),
		})
	}
	tr.way = append(tr.way, message{in, in.life, b})
}

// arrive is that one of those under way reaches the stores, and perhaps stays to
// arrive once more; the reply may be lost.
func (tr *trace) arrive() {
	if len(tr.way) == 0 {
		return
	}
	i := rapid.IntRange(0, len(tr.way)-1).Draw(tr.T, "which")
	m := tr.way[i]
	if rapid.IntRange(0, 3).Draw(tr.T, "repeat") > 0 {
		tr.way = slices.Delete(tr.way, i, i+1)
	}
	if rapid.IntRange(0, 9).Draw(tr.T, "lost") == 0 {
		return
	}
	got := tr.exchange(tr.reference, m)
	if tr.one != nil {
		tr.same(tr.exchange(tr.one, m), got, m)
	}
	if rapid.IntRange(0, 9).Draw(tr.T, "no reply") > 0 {
		tr.hear(m, got)
	}
}

// exchange says it as an instance does that knows the store of the message's life.
func (tr *trace) exchange(s store.Store, m message) store.Reply {
	tr.Helper()
	b := m.b
	if s == tr.one {
		b.Asks = slices.Clone(b.Asks)
		for i := range b.Asks {
			b.Asks[i].Birth = tr.births[b.Asks[i].Birth]
		}
	}
	switch m.life {
	case -1:
	case tr.lost:
		p, err := s.Pulse(tr.Context(), store.Member{})
		if err != nil {
			tr.Fatal(err)
		}
		b.Generation = p.Generation
	default:
		b.Generation = "before"
	}
	r, err := s.Exchange(tr.Context(), []store.Batch{b})
	if err != nil {
		tr.Fatal(err)
	}
	return r[0]
}

func (tr *trace) same(got, want store.Reply, m message) {
	tr.Helper()
	if !got.Now.Equal(want.Now) {
		tr.Fatalf("at %v and at %v", got.Now, want.Now)
	}
	for i, a := range want.Answers { // every store has names of its own
		if _, known := tr.births[a.Birth]; !known {
			tr.births[a.Birth] = got.Answers[i].Birth
		}
		if tr.births[a.Birth] == got.Answers[i].Birth {
			got.Answers[i].Birth = a.Birth
		}
	}
	if !reflect.DeepEqual(got.Answers, want.Answers) {
		tr.Fatalf("to %+v\ngot  %+v\nwant %+v", m.b.Asks, got.Answers, want.Answers)
	}
	if !sameNotes(got.Notes, want.Notes) {
		tr.Fatalf("to %+v\ngot  %+v\nwant %+v", m.b.Notes, got.Notes, want.Notes)
	}
}

func (tr *trace) hear(m message, r store.Reply) {
	m.from.life = tr.lost
	for _, a := range r.Answers {
		i := slices.IndexFunc(tr.budgets, func(b store.Ask) bool { return b.Key == a.Key })
		if a.Status != store.Done && a.Status != store.Foreign || m.from.waits[i] != a.Seq {
			continue
		}
		if in := m.from; a.Now.After(in.seen[i]) || a.Birth != in.birth[i] {
			in.birth[i], in.seen[i] = a.Birth, a.Now
		}
		if m.from.past[i] == 1<<63-1 {
			m.from.past[i] = a.Window - 1 // all that it may hold is later
		}
		if a.Status != store.Done {
			continue
		}
		m.from.waits[i] = 0
		m.from.counted[i], m.from.held[i] = store.Holding{Window: a.Window, N: tr.budgets[i].Amount - a.Remaining}, a.Granted
		if a.Granted < m.from.has[i][a.Window] {
			tr.Fatalf("%s has %d of %s and is told %d", m.from.id, m.from.has[i][a.Window], a.Key, a.Granted)
		}
		m.from.gets(i, a.Window, a.Granted)
		for _, h := range a.Later {
			m.from.gets(i, h.Window, h.N)
		}
	}
	tr.bound()
}

// gets is that an instance hears what it has in a window.
func (in *instance) gets(i int, window, n int64) {
	if window <= in.past[i] { // what it has forgotten is not in that
		in.spent[i][window] += n
		return
	}
	in.has[i][window] = n
}

// forget is that the clock of an instance is ahead, and what it has is over by that.
func (tr *trace) forget() {
	in := rapid.SampledFrom(tr.instances).Draw(tr.T, "who forgets")
	i := rapid.IntRange(0, len(tr.budgets)-1).Draw(tr.T, "of what")
	if len(in.has[i]) == 0 {
		return
	}
	past := rapid.SampledFrom(slices.Sorted(maps.Keys(in.has[i]))).Draw(tr.T, "up to")
	for w, n := range in.has[i] {
		if w <= past {
			in.spent[i][w] += n
			delete(in.has[i], w)
		}
	}
	in.past[i], in.waits[i] = max(in.past[i], past), 0
}

// step is that the clock of the stores is set, and perhaps back again soon.
func (tr *trace) step() {
	tr.clock.forward(time.Duration(rapid.Int64Range(-15e9, 40e9).Draw(tr.T, "step")))
}

// evict is that the stores lose the budgets, and nothing else. All are told.
func (tr *trace) evict() {
	if tr.one != nil {
		e, can := tr.one.(evicter)
		if !can {
			return
		}
		e.Evict(tr.site)
	}
	tr.reference.Evict(tr.site)
	tr.arrive()
	tr.everybody()
}

// everybody says what he has. What he has forgotten and the store has lost is known to
// nobody.
func (tr *trace) everybody() (replies []store.Reply) {
	for _, in := range tr.instances {
		b := store.Batch{Site: tr.site, Instance: in.id}
		for i, a := range tr.budgets {
			in.seq++
			clear(in.spent[i])
			in.waits[i], a.Seq, a.Want = 0, in.seq, 50
			a.Past, a.Birth, a.Seen, a.Counted, a.Held = in.past[i], in.birth[i], in.seen[i], in.counted[i], in.held[i]
			a.Edges = edges(tr.clock.now())
			for w, n := range in.has[i] {
				a.Holds = append(a.Holds, store.Holding{Window: w, N: n})
			}
			b.Asks = append(b.Asks, a)
		}
		m := message{in, in.life, b}
		got := tr.exchange(tr.reference, m)
		if tr.one != nil {
			tr.same(tr.exchange(tr.one, m), got, m)
		}
		replies = append(replies, got)
	}
	return replies
}

// bound checks that no budget has more units in a window than its amount.
func (tr *trace) bound() {
	tr.Helper()
	for i, b := range tr.budgets {
		sums := map[int64]int64{}
		for _, in := range tr.instances {
			for w, n := range in.has[i] {
				sums[w] += n
			}
			for w, n := range in.spent[i] {
				sums[w] += n
			}
		}
		in := int64(1)
		if b.Kind == store.Rolling {
			in = int64(max(b.Slots, 1)) + 1
		}
		for first := range sums {
			total := int64(0)
			for w, n := range sums {
				if w >= first && w < first+in {
					total += n
				}
			}
			if total > b.Amount {
				tr.Fatalf("of %s, %d may be spent from window %d on, of %d", b.Key, total, first, b.Amount)
			}
		}
	}
}

func (tr *trace) forward() {
	tr.clock.forward(time.Duration(rapid.OneOf(
		rapid.Int64Range(0, 5e6), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 90e9),
	).Draw(tr.T, "forward")))
}

// lose is that the stores know nothing any more, or, without another store than the
// reference, what they knew at some time. What was under way does not arrive; all say
// what they have, and then go on.
func (tr *trace) lose() {
	back := tr.one == nil && rapid.Bool().Draw(tr.T, "to a snapshot")
	if tr.one != nil {
		l, can := tr.one.(loser)
		if !can {
			return
		}
		l.Lose()
	}
	if back {
		tr.reference.Revert(tr.snapshot)
	} else {
		tr.reference.Lose()
	}
	tr.lost++
	tr.way = nil
	for _, in := range tr.instances {
		in.life = -2
	}
	for _, r := range tr.everybody() {
		for _, a := range r.Answers {
			if a.Status != store.Foreign {
				tr.Fatalf("after a loss %s has status %d", a.Key, a.Status)
			}
		}
	}
	for _, in := range tr.instances {
		in.life, in.settled = tr.lost, tr.lost
	}
}

func (tr *trace) run() {
	tr.snapshot = tr.reference.Snapshot()
	tr.Repeat(map[string]func(*rapid.T){
		"say":     func(t *rapid.T) { tr.T = t; tr.say() },
		"arrive":  func(t *rapid.T) { tr.T = t; tr.arrive() },
		"arrive2": func(t *rapid.T) { tr.T = t; tr.arrive() },
		"forward": func(t *rapid.T) { tr.T = t; tr.forward() },
		"drop":    func(t *rapid.T) { tr.T = t; tr.drop() },
		"forget":  func(t *rapid.T) { tr.T = t; tr.forget() },
		"step":    func(t *rapid.T) { tr.T = t; tr.step() },
		"evict": func(t *rapid.T) {
			if tr.T = t; rapid.IntRange(0, 3).Draw(t, "really") == 0 {
				tr.evict()
			}
		},
		"keep": func(*rapid.T) { tr.snapshot = tr.reference.Snapshot() },
		"lose": func(t *rapid.T) {
			if tr.T = t; rapid.IntRange(0, 4).Draw(t, "really") == 0 {
				tr.lose()
			}
		},
		"": func(t *rapid.T) { tr.T = t; tr.bound() },
	})
}

// drop is that an instance dies, with all that it has, and another takes its place.
func (tr *trace) drop() {
	i := rapid.IntRange(0, len(tr.instances)-1).Draw(tr.T, "who dies")
	tr.instances[i] = newInstance(tr, tr.instances[i].id+"'")
}

func TestEveryStoreAnswersAsTheReferenceDoesAndNobodyGetsTooMuch(t *testing.T) {
	for _, name := range fleets {
		t.Run(name, func(t *testing.T) {
			c, runs := newClock(), 0
			store := constructors[name](t, c.now)
			defer store.Close()
			rapid.Check(t, func(t *rapid.T) {
				runs++
				c.forward(time.Hour)
				newTrace(t, c, store, reference.New(c.now), fmt.Sprintf("site-%d", runs)).run()
			})
		})
	}
}

func TestNobodyGetsTooMuchWhateverIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		newTrace(t, c, nil, reference.New(c.now), "site").run()
	})
}
