package store

import (
	"encoding/json"
	"slices"
	"time"
)

// recentUse is the time for which an instance counts as a user of a budget after it has
// wanted or used units.
const recentUse = 2 * time.Second

// sharedState is the record of a Count that several instances use. It is saved as JSON.
type sharedState struct {
	State []byte                  `json:"state"`
	Parts map[string]instancePart `json:"parts"` // :: instance → its part
}

// instancePart is the record of one instance.
type instancePart struct {
	Seq   uint64 `json:"seq"`
	Ahead int64  `json:"ahead,omitempty"`
	At    int64  `json:"at"`              // last ask, in microseconds since 1970
	Lacks bool   `json:"lacks,omitempty"` // it waits for more
}

// caller is the instance that asks, with the time by the store's clock.
type caller struct {
	Instance string
	Now      int64 // microseconds since 1970
}

// JointRow is a Count's row: the state of one instance or, if instance is sharedInstance, a
// sharedState in JSON. nil: no row.
type JointRow struct {
	instance string
	seq      int64 // of an instance's Ask, see seqOrder; of sharedInstance, the number of changes
	ahead    int64 // units that all instances together may take after the state
	at       int64 // in microseconds since 1970
	state    []byte
}

// sharedInstance is the instance of a row that several instances use.
const sharedInstance = ""

// owns tells whether the asking instance may write its State without reading the row.
func (r *JointRow) owns(a *Ask, instance string) bool {
	return a.Joint.Owned && (r == nil || r.instance == instance && r.seq < seqOrder(a.Seq) ||
		a.Joint.From.matches(r.instance, r.seq))
}

// AnswerJoint answers an Ask with Joint from a budget's row. It returns the row to save if
// the Status is Done. lives tells which instances are running.
func AnswerJoint(r *JointRow, a *Ask, instance string, now time.Time, lives func(instance string) bool) (*JointRow, Answer) {
	t := caller{instance, now.UnixMicro()}
	if r.owns(a, instance) {
		return ownRow(a, t)
	}
	return r.share(a, t, lives)
}

// ownRow returns the row that the owner of a budget writes.
func ownRow(a *Ask, t caller) (*JointRow, Answer) {
	said := Answer{Key: a.Key, Seq: a.Seq, Granted: clamp(a.Want), Holders: 1, Owned: true}
	return &JointRow{t.Instance, seqOrder(a.Seq), clamp(a.Want), t.Now, a.State}, said
}

// share decides an Ask of an instance that does not own the budget. r is nil if there is no
// row. lives tells which instances are running.
func (r *JointRow) share(a *Ask, t caller, lives func(instance string) bool) (*JointRow, Answer) {
	said, j := Answer{Key: a.Key, Seq: a.Seq}, *a.Joint
	c, version := r.common(a), int64(0)
	if r == nil {
		j.Uses = nil // State includes them
	} else if r.instance == sharedInstance {
		version = r.seq
	}
	if c.Parts[t.Instance].Seq >= a.Seq {
		said.Status = Stale
		return r, said
	}
	said.Granted, said.Others = c.share(a, &j, t, lives)
	said.State, said.Holders = c.State, len(c.Parts)
	next := &JointRow{sharedInstance, version + 1, c.totalAhead(), t.Now, nil}
	if said.Owned = len(c.Parts) == 1 && !j.Stays; said.Owned {
		next.instance, next.seq, next.state = t.Instance, seqOrder(a.Seq), c.State
	} else {
		next.state, _ = json.Marshal(c) // numbers and bytes alone
	}
	return next, said
}

// common returns the row's state. Without a row it is the Ask's.
func (r *JointRow) common(a *Ask) sharedState {
	switch {
	case r == nil:
		return sharedState{State: a.State}
	case r.instance != sharedInstance:
		return sharedState{State: r.state, Parts: map[string]instancePart{r.instance: {Seq: uint64(r.seq) ^ 1<<63, Ahead: clamp(r.ahead), At: r.at}}}
	}
	var c sharedState
	if json.Unmarshal(r.state, &c) != nil {
		c = sharedState{State: a.State, Parts: map[string]instancePart{sharedInstance: {Ahead: clamp(r.ahead)}}} // as if of an ended instance
	}
	return c
}

// share decides how much an Ask gets.
func (c *sharedState) share(a *Ask, j *Joint, t caller, lives func(instance string) bool) (granted, others int64) {
	mine, rivals, lapsed := c.Parts[t.Instance], int64(0), int64(0)
	for id, p := range c.Parts {
		past := t.Now - p.At
		recent := past >= 0 && past < int64(recentUse/time.Microsecond)
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
	// Other waiting instances get as much, or at least a useful amount.
	fair := max((left+rivals)/(rivals+1), least)
	granted = min(clamp(a.Want), left, fair)
	if granted < least {
		granted = 0
	}
	granted = max(granted, clamp(j.Keep))
	if c.Parts == nil {
		c.Parts = map[string]instancePart{}
	}
	c.State = next
	c.Parts[t.Instance] = instancePart{Seq: a.Seq, Ahead: granted, At: t.Now, Lacks: j.Waits && granted < clamp(a.Want)}
	return granted, others
}

// totalAhead returns the units that all instances together may take.
func (c *sharedState) totalAhead() int64 {
	n := int64(0)
	for _, p := range c.Parts {
		n = min(n+p.Ahead, maxSum)
	}
	return clamp(n)
}

// seqOrder maps a number to int64 and keeps the order, because SQLite has no uint64.
func seqOrder(seq uint64) int64 { return int64(seq ^ 1<<63) }
