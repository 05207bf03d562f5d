package limit

import (
	"slices"
)

// As names a kind of limit, as in the configuration.
type As string

// The kinds of limits. If you add a kind, follow the recipe in CONTRIBUTING.md: the kind has rows in kinds,
// in meters in move.go, and in kinds_test.go.
const (
	Rolling     As = "rolling"     // at most Amount in every interval of length Window
	Fixed       As = "fixed"       // at most Amount in each Window aligned to the clock, in UTC
	FirstUse    As = "first-use"   // a Window opens with the first request after the last
	Bucket      As = "bucket"      // Amount per Window on average, Burst at once
	Paced       As = "paced"       // one every Window/Amount
	Quota       As = "quota"       // at most Amount per Period in Location
	Concurrency As = "concurrency" // at most Amount in flight
	Adaptive    As = "adaptive"    // a rate between Min and Max
)

// Traits are the properties of a kind that other packages use. Ask for a trait instead of
// switching on the kind.
type Traits struct {
	Windowed bool   // it has an Amount per Window or Period, which must be remembered over a restart
	Calendar bool   // its windows are Periods in Location instead of a Window; it has no Window
	Burst    bool   // it has a Burst, which can be taken at once, whatever Amount is
	Spaced   bool   // units are spaced out evenly, so the limit is never used up over time
	InFlight bool   // it counts requests in flight only; it has no Window
	Adapts   bool   // it finds its rate, between Min and Max; it has no Amount
	Returns  Return // when taken units are available again
	Fleet    Fleet  // how instances with one store divide it
}

// Return tells when taken units are available again.
type Return uint8

// The ways in which something comes back.
const (
	OnDone        Return = iota // when the request is done, or never
	Continuously                // gradually
	AsTaken                     // a Window after they were taken
	AfterFirstUse               // all, a Window after the first take
	AtEdges                     // all, at the boundaries of windows of the clock or a calendar
)

// Fleet tells how instances with one store divide a limit.
type Fleet uint8

// The ways to divide a limit.
const (
	EachItsOwn  Fleet = iota // not at all: each instance has the whole limit
	ByWindow                 // by windows of the clock
	BySlot                   // by slots of a rolling window
	ByPeriod                 // by periods of a calendar
	ByHalfBurst              // by windows of the clock, with half a burst in each
)

// kind is the number and the traits of a kind.
type kind struct {
	number byte // second byte of stored states: never change or reuse a number
	Traits
}

// kinds has an entry for each kind, as has meters.
var kinds = map[As]kind{
	Rolling:     {1, Traits{Windowed: true, Returns: AsTaken, Fleet: BySlot}},
	Fixed:       {2, Traits{Windowed: true, Returns: AtEdges, Fleet: ByWindow}},
	FirstUse:    {3, Traits{Windowed: true, Returns: AfterFirstUse, Fleet: BySlot}},
	Bucket:      {4, Traits{Windowed: true, Burst: true, Returns: Continuously, Fleet: ByHalfBurst}},
	Paced:       {5, Traits{Windowed: true, Spaced: true, Returns: Continuously}},
	Quota:       {6, Traits{Windowed: true, Calendar: true, Returns: AtEdges, Fleet: ByPeriod}},
	Concurrency: {7, Traits{InFlight: true}},
	Adaptive:    {8, Traits{Adapts: true, Returns: Continuously}},
}

// Kinds lists the names of all kinds, by number.
func Kinds() []string { return KindsWith(func(Traits) bool { return true }) }

// KindsWith lists the names of the kinds whose traits are wanted, by number.
func KindsWith(wanted func(Traits) bool) []string {
	list := make([]string, 0, len(kinds))
	for as, k := range kinds {
		if wanted(k.Traits) {
			list = append(list, string(as))
		}
	}
	slices.SortFunc(list, func(a, b string) int { return int(kinds[As(a)].number) - int(kinds[As(b)].number) })
	return list
}

// Traits returns the kind's traits; none for an unknown name.
func (as As) Traits() Traits { return kinds[as].Traits }
