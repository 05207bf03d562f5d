package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A store counts in whole microseconds, as Redis does, and in amounts up to maxAmount, so
// that sums are exact in the floating point of its scripts.
const (
	maxAmount = int64(1) << 50
	maxSum    = int64(1) << 52 // upper bound of sums
)

// clamp limits an amount to 0…maxAmount.
func clamp(n int64) int64 { return min(max(n, 0), maxAmount) }

// microseconds is a duration of n microseconds.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// Exact returns the Ask as stores count: amounts from 0 to 2^50, defaults filled in, Holds
// sorted and positive, Past -1 for none, and Seen after 1970.
func (a *Ask) Exact() Ask {
	x := *a
	x.Slots = max(a.Slots, 1)
	x.Holds = normalHolds(a.Holds)
	x.Past = -1
	if a.Past > 0 {
		x.Past = min(a.Past, 2*maxSum-2)
	}
	x.Seen = time.UnixMicro(0)
	if !a.Seen.IsZero() {
		x.Seen = time.UnixMicro(min(max(a.Seen.UnixMicro(), 0), maxSum))
	}
	x.Amount, x.Want, x.Waits, x.Ahead = clamp(a.Amount), clamp(a.Want), clamp(a.Waits), clamp(a.Ahead)
	x.Counted.N, x.Held = clamp(a.Counted.N), clamp(a.Held)
	x.Least = min(max(a.Least, 1), maxSum)
	x.Lasts = min(max(a.Lasts, 0), x.Slots)
	return x
}

// normalHolds returns positive holdings, sorted, each window once.
func normalHolds(holds []Holding) []Holding {
	list := slices.Clone(holds)
	slices.SortFunc(list, func(a, b Holding) int { return cmp.Compare(a.Window, b.Window) })
	n := 0
	for _, h := range list {
		switch h.N = clamp(h.N); {
		case h.N == 0:
		case n > 0 && list[n-1].Window == h.Window:
			list[n-1].N = min(list[n-1].N+h.N, maxAmount)
		default:
			list[n] = h
			n++
		}
	}
	return list[:n]
}

// Width returns the length of a numbered window or slot by the store's clock: Window, or a slot
// of it, in whole microseconds, rounded up so that Slots of them are at least a Window. It
// is 0 for kinds without a fixed length.
func Width(a *Ask) time.Duration {
	var ns, n int64
	switch a.Kind {
	case Fixed:
		ns, n = int64(a.Window), 1
	case Rolling:
		ns, n = int64(a.Window), int64(max(a.Slots, 1))
	}
	if ns <= 0 {
		return 0
	}
	each := (ns-1)/n + 1
	return microseconds((each-1)/1000 + 1)
}

// Name returns the name of a budget's record. It includes the limit's shape, because window
// numbers of one length mean nothing in another: instances may have different
// configurations for a while.
func (a *Ask) Name() string {
	switch a.Kind {
	case Fixed:
		return fmt.Sprintf("f/%d/%s", Width(a).Microseconds(), a.Key)
	case Rolling:
		return fmt.Sprintf("r/%d/%d/%s", Width(a).Microseconds(), max(a.Slots, 1), a.Key)
	case Quota:
		return "q/" + a.Key
	case Count:
		return "c/" + a.Key
	}
	return "kind" + strconv.Itoa(int(a.Kind)) + "/" + a.Key
}

// Newcomer tells whether an instance knows no Generation and holds nothing. Any generation
// of the store answers it.
//
// An instance that knows no Generation but holds units has taken these without the store,
// so others may have done so, too, or it has missed a change of the Generation. It states
// first what it holds, and gets grants when it knows the Generation.
func (b *Batch) Newcomer() bool {
	return b.Generation == "" && !slices.ContainsFunc(b.Asks, func(a Ask) bool {
		return slices.ContainsFunc(a.Holds, func(h Holding) bool { return h.N > 0 })
	})
}

// untilTolerance is the largest difference of the Until of two notes with the same content.
const untilTolerance = time.Second

// maxUntil is the latest Until of a Note: later times would not be exact in the floating
// point of a script.
var maxUntil = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// normalized returns the Note as it is saved.
func (n Note) normalized() Note {
	if n.Until.After(maxUntil) {
		n.Until = maxUntil
	}
	n.Until = time.UnixMicro(n.Until.UnixMicro())
	n.N = min(max(n.N, -maxSum), maxSum)
	return n
}

// Replaces tells whether a Note replaces a known one: a later Until does, or if both are
// nearly equal, a larger N. The same rule is in redis.lua.
func (n Note) Replaces(known Note) bool {
	if d := n.Until.Sub(known.Until); d > untilTolerance || d < -untilTolerance {
		return d > 0
	}
	return n.N > known.N
}

// MergeNotes adds received notes to the known ones, and drops expired ones. It returns the
// notes that were new.
func MergeNotes(known map[string]Note, said []Note, now time.Time) (news []Note) {
	maps.DeleteFunc(known, func(_ string, n Note) bool { return !n.Until.After(now) })
	for _, n := range said {
		n = n.normalized()
		if old, there := known[n.Key]; n.Until.After(now) && (!there || n.Replaces(old)) {
			known[n.Key] = n
			news = append(news, n)
		}
	}
	return news
}

// SortNotes sorts notes by key.
func SortNotes(notes []Note) []Note {
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.Key, b.Key) })
	return notes
}

// An instance counts as a user of a budget for recentUse after it has wanted or used units. For activeUse it is expected
// to want more.
const recentUse, activeUse = 2 * time.Second, 300 * time.Millisecond

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
	Wants int64  `json:"wants,omitempty"` // units that it waits for beside Ahead
	Until int64  `json:"until,omitempty"` // if it waits: when it asks again, in microseconds since 1970
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

// AnswerJoint answers an Ask with Joint from the rows of its budget and of those that this replaces, by their keys. It
// returns the row to save if the Status is Done. lives tells which instances are running.
func AnswerJoint(rows map[string]*JointRow, a *Ask, instance string, now time.Time, lives func(instance string) bool) (*JointRow, Answer) {
	said, j, at, r := Answer{Key: a.Key, Seq: a.Seq}, *a.Joint, now.UnixMicro(), rows[a.Key]
	before, others := j.before(rows, instance)
	owned := j.Owned && (r == nil || r.instance == instance && r.seq < seqOrder(a.Seq) ||
		j.From.instance != nil && *j.From.instance == r.instance && j.From.seq == r.seq)
	if owned && !others {
		said.Granted, said.Holders = clamp(a.Want), 1
		return &JointRow{instance, seqOrder(a.Seq), said.Granted, at, a.State}, said
	}
	c, version := r.common(a), int64(0)
	if owned || r == nil {
		c, j.Uses = sharedState{State: a.State}, nil // State includes them
	}
	if r != nil && r.instance == sharedInstance {
		version = r.seq
	}
	if c.Parts[instance].Seq >= a.Seq {
		said.Status = Stale
		return r, said
	}
	if len(before) > 0 {
		c.State = j.Inherit(now, c.State, before)
	}
	said.Granted, said.Others = c.share(a, &j, instance, at, lives)
	said.State, said.Holders = c.State, len(c.Parts)
	next := &JointRow{sharedInstance, version + 1, c.totalAhead(), at, nil}
	if len(c.Parts) == 1 {
		next.instance, next.seq, next.state = instance, seqOrder(a.Seq), c.State
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

// before returns the budgets of Before that exist, and whether other instances than one have used them. What the others
// may take of them counts as taken.
func (j *Joint) before(rows map[string]*JointRow, instance string) (all []*SavedBudget, others bool) {
	for _, key := range j.Before {
		if r := rows[key]; r != nil {
			c := r.common(&Ask{})
			all, others = append(all, &SavedBudget{Key: key, State: c.State, Ahead: c.totalAhead() - c.Parts[instance].Ahead, At: time.UnixMicro(r.at)}), others || r.instance != instance
		}
	}
	return all, others
}

// share decides how much an Ask gets, at a time in microseconds since 1970.
func (c *sharedState) share(a *Ask, j *Joint, instance string, now int64, lives func(instance string) bool) (granted, others int64) {
	mine, lapsed := c.Parts[instance], int64(0)
	var rivals []int64 // how much each of those may want that want some
	for id, p := range c.Parts {
		past := microseconds(now - p.At)
		recent := past >= 0 && microseconds(now-max(p.At, p.Until)) < recentUse
		switch {
		case id == instance:
			continue
		case p.Ahead == 0 && !recent, !lives(id):
			lapsed += p.Ahead
			delete(c.Parts, id)
			continue
		case recent && p.Wants > 0:
			rivals = append(rivals, p.Wants)
		case recent && past < activeUse:
			rivals = append(rivals, maxAmount)
		}
		others += p.Ahead
	}
	uses := slices.DeleteFunc(slices.Clone(j.Uses), func(u Use) bool { return u.Seq <= mine.Seq })
	next, left, enough := j.Merge(time.UnixMicro(now), c.State, uses, lapsed, others)
	least := max(a.Least, 1)
	// Each gets an equal part, or at least a useful amount. What somebody does not want of a part is for the others.
	rest, n := left, int64(len(rivals)+1)
	slices.Sort(rivals)
	for _, wants := range rivals {
		if wants < rest/n {
			rest, n = rest-wants, n-1
		}
	}
	granted = min(clamp(a.Want), left, max((rest+n-1)/n, least))
	if granted < least {
		granted = 0
	}
	granted = max(granted, clamp(j.Keep))
	if c.Parts == nil {
		c.Parts = map[string]instancePart{}
	}
	c.State = next
	part := instancePart{Seq: a.Seq, Ahead: granted, At: now}
	if a.Waits > 0 && granted < clamp(a.Want) {
		part.Wants, part.Until = clamp(a.Want)-granted, enough.UnixMicro()
	}
	c.Parts[instance] = part
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
