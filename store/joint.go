package store

import (
	"encoding/json"
	"slices"
	"time"
)

// Joint is what a Count needs that several processes of this machine may use at the
// same time. Only File has it.
//
// What is kept of such a budget is the state of its meter at some time, and of each
// instance how much it may have taken after that. So at every instant
//
//	what all have taken <= the state + what each instance may take
//
// and one instance alone has what any Count has. An instance whose memory is newer than
// what is kept of it, because another one has asked meanwhile, says what it took since.
type Joint struct {
	// Owned says that State is all that is known of the budget, if nothing was written
	// since this instance wrote last, or since From was read.
	Owned bool
	From  Origin
	// Stays says that what is kept is to stay as several instances need it, though no
	// other one uses it now.
	Stays bool
	// Uses is what was taken and given back since the last Ask that was Done, in order.
	Uses []Use
	// Keep is how much of Want the instance may take already.
	Keep int64
	// Least is how much of Want is of use at once, and Waits tells that it is waited for.
	Least int64
	Waits bool
	// Merge brings a state up to date, which may be nil: with what was used, what
	// instances may have taken that have ended, and what others may take now. It answers
	// the next state, and how much may be taken beside that by the instance that asks.
	// It may be called after the Exchange has returned.
	Merge func(now time.Time, state []byte, uses []Use, lapsed, others int64) (next []byte, left int64)
}

// Use is an amount that was taken at a time, or if it is negative, given back of what
// was taken then.
type Use struct {
	Seq uint64 // of the first Ask that it was in
	At  time.Time
	N   int64
}

// Origin is which state of a Count was read. The zero value is none.
type Origin struct {
	instance *string // nil: none. Shared by the Origins of one Recall, of which there may be 200,000
	seq      int64
}

// is tells whether an instance wrote the state, with that number.
func (o Origin) is(instance string, seq int64) bool {
	return o.instance != nil && *o.instance == instance && o.seq == seq
}

// rivalry is for how long an instance counts that wants some of a budget or has used it.
const rivalry = 2 * time.Second

// common is what is kept of a Count that several instances use.
type common struct {
	State []byte             `json:"state"`
	Parts map[string]portion `json:"parts"` // :: instance
}

// portion is what is kept of one instance.
type portion struct {
	Seq   uint64 `json:"seq"`
	Ahead int64  `json:"ahead,omitempty"`
	At    int64  `json:"at"`              // when it asked last, in microseconds since 1970
	Lacks bool   `json:"lacks,omitempty"` // it waits for more
}

// row is a Count as it is kept: what one instance has said, or, where instance is
// severals, a common in JSON.
type row struct {
	instance string
	seq      int64 // of an instance's Ask, see order; of severals, how often it was changed
	ahead    int64 // what may be taken after the state, of all together
	at       int64 // in microseconds since 1970
	state    []byte
}

// severals is the instance of a row that several instances use.
const severals = ""

// owns tells whether the instance that asks may write its State without looking at what
// is kept.
func (r *row) owns(a *Ask, instance string) bool {
	return a.Joint.Owned && (r == nil || r.instance == instance && r.seq < order(a.Seq) ||
		a.Joint.From.is(r.instance, r.seq))
}

// own is the row that such an instance writes.
func own(a *Ask, t turn) (*row, Answer) {
	said := Answer{Key: a.Key, Seq: a.Seq, Granted: clamp(a.Want), Holders: 1, Owned: true}
	return &row{t.Instance, order(a.Seq), clamp(a.Want), t.Now, a.State}, said
}

// share decides an Ask of an instance that does not own the budget. r is nil if nothing
// is kept of it. lives tells which instances have not ended.
func (r *row) share(a *Ask, t turn, lives func(instance string) bool) (*row, Answer) {
	said, j := Answer{Key: a.Key, Seq: a.Seq}, *a.Joint
	c, version := r.common(a), int64(0)
	if r == nil {
		j.Uses = nil // State has them
	} else if r.instance == severals {
		version = r.seq
	}
	if c.Parts[t.Instance].Seq >= a.Seq {
		said.Status = Stale
		return r, said
	}
	said.Granted, said.Others = c.share(a, &j, t, lives)
	said.State, said.Holders = c.State, len(c.Parts)
	next := &row{severals, version + 1, c.ahead(), t.Now, nil}
	if said.Owned = len(c.Parts) == 1 && !j.Stays; said.Owned {
		next.instance, next.seq, next.state = t.Instance, order(a.Seq), c.State
	} else {
		next.state, _ = json.Marshal(c) // numbers and bytes alone
	}
	return next, said
}

// common is what is kept. Where nothing is known, it is as the Ask says.
func (r *row) common(a *Ask) common {
	switch {
	case r == nil:
		return common{State: a.State}
	case r.instance != severals:
		return common{State: r.state, Parts: map[string]portion{r.instance: {Seq: uint64(r.seq) ^ 1<<63, Ahead: clamp(r.ahead), At: r.at}}}
	}
	var c common
	if json.Unmarshal(r.state, &c) != nil {
		c = common{State: a.State, Parts: map[string]portion{severals: {Ahead: clamp(r.ahead)}}} // as of one that has ended
	}
	return c
}

// share is what an Ask gets.
func (c *common) share(a *Ask, j *Joint, t turn, lives func(instance string) bool) (granted, others int64) {
	mine, rivals, lapsed := c.Parts[t.Instance], int64(0), int64(0)
	for id, p := range c.Parts {
		past := t.Now - p.At
		recent := past >= 0 && past < int64(rivalry/time.Microsecond)
		switch {
		case id == t.Instance:
			continue
		case !lives(id):
			lapsed += p.Ahead
			delete(c.Parts, id)
			continue
		case p.Ahead == 0 && !recent:
			delete(c.Parts, id)
			continue
		case p.Lacks && recent:
			rivals++
		}
		others += p.Ahead
	}
	uses := slices.DeleteFunc(slices.Clone(j.Uses), func(u Use) bool { return u.Seq <= mine.Seq })
	next, left := j.Merge(time.UnixMicro(t.Now), c.State, uses, lapsed, others)
	least := max(j.Least, 1)
	// Those that wait as well get as much, or what is of use.
	fair := max((left+rivals)/(rivals+1), least)
	granted = min(clamp(a.Want), left, fair)
	if granted < least {
		granted = 0
	}
	granted = max(granted, clamp(j.Keep))
	if c.Parts == nil {
		c.Parts = map[string]portion{}
	}
	c.State = next
	c.Parts[t.Instance] = portion{Seq: a.Seq, Ahead: granted, At: t.Now, Lacks: j.Waits && granted < clamp(a.Want)}
	return granted, others
}

// ahead is what all instances may take.
func (c *common) ahead() int64 {
	n := int64(0)
	for _, p := range c.Parts {
		n = min(n+p.Ahead, brims)
	}
	return clamp(n)
}
