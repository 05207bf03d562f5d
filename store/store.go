// Package store keeps budgets that outlive a process or span a fleet.
//
// There is one operation: an instance states what it holds of a budget
// and what it wants; the store saves the first and grants what is left of the
// second. File is one file on this machine, of which the processes of that machine are
// the instances. Redis is for a fleet. Package store/reference gives the same answers in
// plain Go, for tests.
package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// ErrClosed is the error of a closed store.
var ErrClosed = errors.New("the store is closed")

// Kind is the arithmetic of a budget, as far as a store needs it.
type Kind uint8

// The kinds. They are persisted: never change a number. If you add a kind, also change
// redis.lua and store/reference.
const (
	// Count has no bound that the store knows. It keeps a State, and how much may have been
	// taken since that was made. Only File supports it.
	Count Kind = 1
	// Fixed is at most Amount in each Window aligned to the store's clock.
	Fixed Kind = 2
	// Rolling is at most Amount in every interval of one Window. It is kept in
	// slots: what is granted in one counts from its beginning until a Window after
	// its end.
	Rolling Kind = 3
	// Quota is at most Amount between two Edges, which the asker's calendar says.
	Quota Kind = 4
)

// Ask is an instance's statement about one budget: what it holds, and what it wants. If you
// add a field, also change Exact, redistext.go, redis.lua and store/reference.
type Ask struct {
	Key    string // the budget's key within the site; see BudgetKey
	Kind   Kind
	Amount int64
	Window time.Duration // Fixed, Rolling
	Slots  int           // Rolling: number of slots of a Window
	Edges  []time.Time   // Quota: sorted, around now: start of the previous window, of this one, of the next …

	// Seq is larger than in every earlier Ask of this instance for this key. A store
	// ignores an Ask that is not newer.
	Seq uint64

	// Holds are all units granted to the instance and not given back, spent or not, in
	// windows or slots that may still count. They replace the store's record.
	Holds []Holding

	// Past is the last window that the instance has forgotten, because it had ended by the
	// instance's clock. The store's record of windows up to Past stays spent. Units of
	// later windows that are not in Holds are given back. A new meter sends the largest
	// number: it does not know what an earlier meter held.
	Past int64

	// Birth and Seen are the Birth and the latest Now of the budget's Answers, if any: they
	// show a store what it has lost.
	Birth string
	Seen  time.Time
	// Counted has the units that counted in a window by the latest Answer: Amount minus Remaining.
	// After a loss it restores, for Fixed and Quota, what ended instances had spent. Held
	// is the part of it that the instance held then: it may give some back with this Ask.
	Counted Holding
	Held    int64

	Want  int64 // additional units in the present window
	Least int64 // fewer units are useless, so none are granted then; 0 is 1
	Waits int64 // part of Want that waits and is used as soon as it is granted
	Ahead int64 // total units in the next window; Rolling: in later slots, of what is not granted now

	// Lasts is, for Rolling, the number of slots after the present one in which granted
	// units should stay usable. They count in the last of these slots if half of Amount is left then, or
	// a fourth with a single instance; then Ahead is not granted. Otherwise they count in
	// the present slot.
	Lasts int

	State []byte // Count: state of the meter; Want may be taken after it
	Joint *Joint // Count: what processes of this machine need to use it together
}

// Holding is an amount in one window. A Fixed window's number is that of Windows since
// 1970, a slot's that of slots since 1970, a Quota's its start in Unix seconds.
type Holding struct {
	Window int64
	N      int64
}

// Joint extends an Ask for a Count, which several processes of this machine may use at the
// same time.
//
// The record of such a budget is the state of its meter at some time, and for each instance
// how much it may have taken after that. So at every instant the units taken by all
// instances are at most those of the state plus what each instance may take. A single
// instance writes its own State. An instance whose meter is newer than the
// record, because another has asked meanwhile, sends what it took since.
type Joint struct {
	// Owned means that State is complete if no other instance has written since this one
	// wrote last, or since From was read.
	Owned bool
	From  Origin
	// Uses are the units taken and given back since the last Ask that was Done, in order.
	Uses []Use
	// Keep is the part of Want that the instance may take already.
	Keep int64
	// Before are the keys of budgets that this one replaces. Inherit adds to a state, which may be nil, what
	// was spent of those that exist, of whichever instance.
	Before  []string
	Inherit func(now time.Time, state []byte, before []*SavedBudget) []byte
	// Merge updates a state, which may be nil, with uses, with units that ended instances
	// may have taken, and with units that others may take now. It returns the next state,
	// how much the asking instance may take beside it, and when Least may be left. It may be
	// called after Exchange has returned.
	Merge func(now time.Time, state []byte, uses []Use, lapsed, others int64) (next []byte, left int64, enough time.Time)
}

// Use is an amount that was taken at a time or, if negative, given back of what was taken
// then.
type Use struct {
	Seq       uint64 // of the first Ask that contained it
	At        time.Time
	N         int64
	Postponed bool // N was taken then, as another Use says, and was sent only now
}

// Origin identifies a state of a Count that was read. The zero value is none.
type Origin struct {
	instance *string // nil: none. A pointer shared by the Origins of one Recall, of which there may be 200,000
	seq      int64
}

// Status is the result of an Ask.
type Status uint8

// The results.
const (
	Done    Status = iota
	Stale          // its Seq is not newer: nothing was changed
	Foreign        // the store, or the budget's record, is not the one that the instance knows: Holds were saved, nothing was granted
	Failed         // the store cannot read the budget's record, for example because another program uses its key
)

// Answer is the store's answer about one budget. Fields after Status are valid only if it
// is Done or Foreign.
type Answer struct {
	Key    string
	Seq    uint64
	Status Status

	// Birth identifies the budget's record. It changes when the record was, or may have
	// been, lost.
	Birth string
	// Now is the budget's time: the store's clock, or the latest time of the budget if the
	// clock is behind that. It never goes back.
	Now time.Time
	// Recovery is the time after a loss in which nothing is granted, so that all instances
	// can state their holds.
	Recovery time.Duration

	Window    int64         // number of the present window
	Ends      time.Duration // until its end, by the store's clock
	Granted   int64         // the instance's total in the present window
	Remaining int64         // left for any instance, in the present window
	Holders   int           // instances that use it now, including this one
	Later     []Holding     // the instance's units in later windows or slots. Rolling: with Remaining, all may be used now

	State  []byte // Count: current state of the meter, if it differs from the Ask's
	Others int64  // how much other instances may take after that
}

// Note is information for all users of a site: a cooldown, what is left of a token's
// window, a quarantined token. Of two notes with one Key the later Until wins; if these
// differ by at most a second, the larger N.
type Note struct {
	Key   string
	Until time.Time // by the sender's clock; a store passes on the remaining time
	N     int64
	Text  string
}

// Batch is all that an instance states about one site in one call.
type Batch struct {
	Site       string
	Instance   string
	Generation string // of the last Reply; "" the first time
	Asks       []Ask
	Notes      []Note
}

// Reply is the answer to a Batch.
type Reply struct {
	// Generation identifies this life of the store. It changes when the store may have lost
	// data: after a restart, and when another server has taken over.
	Generation string
	Now        time.Time // by the store's clock, whatever time its budgets have reached
	Answers    []Answer  // one for each Ask, in order
	Notes      []Note    // all valid notes, Until by the asker's clock
}

// Store keeps budgets. Exchange is its one operation, which leases, gives back, repeats,
// and repairs what a lost reply or a lost state has left.
//
// An implementation must be safe for concurrent use and correct whatever happens to
// messages: each may be lost, repeated, late or reordered.
type Store interface {
	// Exchange returns one Reply for each Batch, in order. After an error it is unknown
	// what was done, and a Batch may still be read: nobody changes it any more.
	Exchange(ctx context.Context, batches []Batch) ([]Reply, error)

	// Pulse records that an instance is alive, and returns how many are. It must be
	// repeated every Beat.
	Pulse(ctx context.Context, m Member) (Pulse, error)

	// Members lists live instances, by ID, at most mostMembers.
	Members(ctx context.Context) ([]Member, error)

	Close() error
}

// Beat returns the interval of pulses in a fleet of a size: it grows with large fleets, so that
// the store gets no more pulses than from a thousand instances.
func Beat(members int) time.Duration {
	return max(time.Duration(members)*time.Millisecond, time.Second)
}

// Lifetime returns the time for which a member of a fleet of a size counts after its last
// pulse.
func Lifetime(members int) time.Duration { return 5 * Beat(members) }

// mostMembers bounds the members that are listed.
const mostMembers = 1000

// RecoveryTime is the time after a new Generation in which nothing is granted: by its end all
// instances have stated their holds.
const RecoveryTime = 3 * time.Second

// Member is an instance that uses a store.
type Member struct {
	ID   string    // unique for one run of a process
	Name string    // for operators: host and process
	Seen time.Time // by the store's clock; set by the store
	Gone bool      // it leaves

	// Lifetime is the time for which it counts after this pulse: Lifetime of the fleet's
	// size as it knows it. 0: that of a small fleet.
	Lifetime time.Duration
}

// Pulse is the state of a store.
type Pulse struct {
	Generation string
	Since      time.Duration // age of this Generation, as far as known
	Members    int           // number of live members
	Documents  uint64        // changes with every change of a document
	Now        time.Time     // by the store's clock
}

// Documents keeps small values that are read as a whole.
type Documents interface {
	// Put saves a document until a time, or for ever if that is zero. A nil value removes
	// it.
	Put(ctx context.Context, kind, key string, value []byte, until time.Time) error
	// All returns the documents of a kind.
	All(ctx context.Context, kind string) (map[string][]byte, error)
}

// News is a message that a store sends to all instances at once.
type News struct {
	// Site has new notes. It is "" for a changed document.
	Site string
	// Notes are the new ones. If empty, they are too long for a message: an Exchange
	// returns them.
	Notes []Note
	// Began means that messages are received from now on. Earlier ones may have been
	// missed.
	Began bool
	// Lost means that the store has lost budgets, of Site or, if that is "", of all:
	// instances state their holds again within RecoveryTime.
	Lost bool
}

// Listener is a store that sends news without being asked.
type Listener interface {
	// Listen calls heard with news until ctx is done. It only accelerates: the next
	// Exchange or Pulse finds what it misses.
	Listen(ctx context.Context, heard func(News)) error
}

// Names translates keys of the queue's resources to names that are the same in every
// process.
type Names interface {
	// Stable returns the name of a resource's key at a site.
	Stable(site, key string) string
	// Local returns the keys of a name in this process, for the resources of a limit. There
	// are none for a token that this process does not have.
	Local(site, limit, name string) []string
	// Lasting reports whether a key has a meaning in other processes.
	Lasting(key string) bool
}

// Separator is between the parts of a key. No part contains it.
const Separator = "\x1f"

// BudgetKey is the key of a limit's budget: the limit's name, and the key of whose budget
// it is, "" for a budget common to all.
func BudgetKey(limit, whose string) string {
	if whose == "" {
		return limit
	}
	return limit + Separator + whose
}

// sortedMembers sorts members by ID, and returns at most mostMembers.
func sortedMembers(all iter.Seq[Member]) []Member {
	list := slices.SortedFunc(all, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list[:min(len(list), mostMembers)]
}

// SavedBudget is the last saved state of a Count budget.
type SavedBudget struct {
	Site, Key string
	State     []byte
	Ahead     int64     // may have been taken after State
	At        time.Time // when it was saved; never in the future
	From      Origin    // origin of State, for the first Ask with Joint
}
