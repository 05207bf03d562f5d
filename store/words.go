// Package store keeps budgets that outlive a process or span a fleet.
//
// There is one operation, assert and ask: an instance says what it holds of a budget
// and what it wants, and the store writes the one down and grants of the other what
// is left. Memory is for tests and as the reference, File is one file on this
// machine, and Redis is for a fleet. All three give the same answers.
package store

import (
	"context"
	"time"
)

// Kind is the arithmetic of a budget, as far as a store needs to know it.
type Kind uint8

// The kinds. They are written down: never give one another number.
const (
	// Count has no bound that the store knows. It only keeps what is said: a State,
	// and how much may have been taken since that was made.
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

// Ask is what an instance says of one budget: what it has, and what it wants.
type Ask struct {
	Key    string // which budget of the site, and whose
	Kind   Kind
	Amount int64
	Window time.Duration // Fixed, Rolling
	Slots  int           // Rolling: how many slots are a Window
	Edges  []time.Time   // Quota: in order, around now: of the window before, of this one, of the next …

	// Seq is larger than in every Ask of this instance for this key before. A store
	// does nothing for one that is not newer than what it has seen.
	Seq uint64

	// Holds is all that the instance has been granted and not given back, spent or
	// not, in the windows or slots that may still count, by their number. It takes
	// the place of what the store has written down.
	Holds []Holding

	// Past is up to which window the instance has forgotten what it held, as by its own
	// clock they were over. What the store has written down there stays spent. What is
	// not among Holds of later windows is given back. A meter that begins says the
	// largest number: it does not know what one before it held.
	Past int64

	// Birth and Seen are the Birth and the latest Now of the budget's Answers, as far as
	// the instance has heard any: they tell a store what it has lost.
	Birth string
	Seen  time.Time
	// Counted is how much counted in a window by the latest of these Answers: Amount less
	// Remaining. After a loss it tells a store of Fixed and Quota what instances had spent
	// that have ended since. Held is what of that the instance held then: it may give some
	// of it back with this Ask.
	Counted Holding
	Held    int64

	Want  int64 // more in the present window
	Least int64 // less than that is of no use, so nothing is granted then; 0 is 1
	Waits int64 // of Want, what waits already, and is used as soon as it is granted
	Ahead int64 // in all, in the next window; Rolling: in later slots, of what is not granted now

	// Lasts is, of a Rolling budget, for how many slots after the present one what is granted
	// of Want is to be of use. It counts as of the last of these, if half of Amount is left
	// then, or a fourth to one alone, and Ahead is not granted. Otherwise it is of the present slot.
	Lasts int

	State []byte // Count: how it stood; Want is how much may be taken after that
	Joint *Joint // Count: for one that several processes may use; see there
}

// Holding is an amount in one window. A Fixed window has the number of Windows since
// 1970, a slot that of slots since 1970, a Quota the Unix second of its beginning.
type Holding struct {
	Window int64
	N      int64
}

// Status is how an Ask went.
type Status uint8

// How it went.
const (
	Done    Status = iota
	Stale          // its Seq is not newer: nothing was changed
	Foreign        // the store, or what was written down of the budget, is not what the instance knows: Holds were taken over, and nothing granted
	Failed         // what is kept of the budget makes no sense to the store, as when the key is something else's
)

// Answer is what the store says of one budget. Only Key, Seq and Status count unless
// that is Done or Foreign.
type Answer struct {
	Key    string
	Seq    uint64
	Status Status

	// Birth names what is written down of the budget. It is another after that was, or
	// may have been, lost.
	Birth string
	// Now is the time of the budget: that of the store's clock, or the latest that the
	// budget has seen if the clock is behind that. It never goes back.
	Now time.Time
	// Settles is how long nobody is granted anything after a loss, so that everybody can
	// say what he holds.
	Settles time.Duration

	Window    int64         // the number of the present one
	Ends      time.Duration // until its end, by the store's clock
	Granted   int64         // what the instance has now in the present window, in all
	Ahead     int64         // and in the next
	Remaining int64         // for anybody, in the present window
	Holders   int           // instances that use it now, this one included
	Free      time.Duration // Rolling: until something ends that counts now; 0: nothing does
	Later     []Holding     // Rolling: what the instance has in later slots. With Remaining, all of it may be used now

	State  []byte // Count with Joint: how the meter stands now, if that is not as in the Ask
	Others int64  // and how much other instances may take after that
	Owned  bool   // no other instance uses the budget
}

// Note is news that everybody who uses a site should have: a cooldown, what is left
// of a token's window, a token that is dead. Of two with one Key the later Until
// stands; where these differ by no more than a second, the larger N.
type Note struct {
	Key   string
	Until time.Time // by the clock of who says it; a store hands on how long that is from now
	N     int64
	Text  string
}

// Batch is all that an instance says of one site in one go.
type Batch struct {
	Site       string
	Instance   string
	Generation string // the Reply's, of the last time; "" the first time
	Asks       []Ask
	Notes      []Note
}

// Reply is the answer to a Batch.
type Reply struct {
	// Generation names this life of the store. It is another after the store may have
	// lost something: after a restart, and after another server has taken over.
	Generation string
	Now        time.Time // by the store's clock, whatever its budgets have seen
	Answers    []Answer  // one for each Ask, in their order
	Notes      []Note    // all that stand, Until by the clock of who asked
}

// Store keeps budgets. Exchange is the whole of it: one operation that leases, gives
// back, repeats, and repairs what a lost reply or a lost state has left.
//
// An implementation is safe for concurrent use, and it is right whatever becomes of
// messages: each may be lost, repeated, late, or in another order.
type Store interface {
	// Exchange answers one Reply for each Batch, in their order. An error says that
	// nothing is known of what was done.
	Exchange(ctx context.Context, batches []Batch) ([]Reply, error)

	// Pulse says that an instance is there, and answers how many are. It needs to be
	// repeated every Beat.
	Pulse(ctx context.Context, m Member) (Pulse, error)

	// Members are instances that are there, by ID, at most MostMembers of them.
	Members(ctx context.Context) ([]Member, error)

	Close() error
}

// Beat is how often an instance of a fleet of a size says that it is there: the pulses
// of a large fleet are no more for the store than those of one of a thousand.
func Beat(members int) time.Duration {
	return max(time.Duration(members)*time.Millisecond, time.Second)
}

// Lifetime is how long a member of a fleet of a size counts after its last pulse.
func Lifetime(members int) time.Duration { return 5 * Beat(members) }

// MostMembers is how many members are listed at most.
const MostMembers = 1000

// Settling is how long after a new Generation nothing may be wanted: by then
// everybody who is there has said again what he holds.
const Settling = 3 * time.Second

// Member is an instance that uses a store.
type Member struct {
	ID   string    // of one life of a process: never used again
	Name string    // for people: host and process
	Seen time.Time // by the store's clock; filled in by the store
	Gone bool      // it says goodbye

	// Lifetime is how long it counts after this pulse: Lifetime of the fleet's size as
	// it knows that. 0: that of a small fleet.
	Lifetime time.Duration
}

// Pulse is what a store says of itself.
type Pulse struct {
	Generation string
	Since      time.Duration // how long the store has been this Generation, as far as it knows
	Members    int           // how many count
	Documents  uint64        // changes with every document that is put or removed
	Now        time.Time     // by the store's clock
}

// Shelf keeps documents: small things that are read as a whole.
type Shelf interface {
	// Put keeps a document until a time, or for good if that is zero. A nil value
	// removes it.
	Put(ctx context.Context, kind, key string, value []byte, until time.Time) error
	// All are the documents of a kind.
	All(ctx context.Context, kind string) (map[string][]byte, error)
}

// News is what a store tells everybody at once.
type News struct {
	// Site has new notes. It is "" for a document that was put or removed.
	Site string
	// Notes are the new ones. Without any they are too long to be told: an Exchange has them.
	Notes []Note
	// Began says that from now on news are told. Those of before may have been missed.
	Began bool
	// Lost says that the store has lost budgets, of Site or, if that is "", of all: who
	// holds something of them says so again within Settling.
	Lost bool
}

// Listener is a store that tells of news before anybody asks.
type Listener interface {
	// Listen calls heard with what is news until ctx is done. It is an accelerator: what
	// it does not tell is found by the next Exchange or Pulse.
	Listen(ctx context.Context, heard func(News)) error
}
