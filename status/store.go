package status

import (
	"cmp"
	"fmt"
	"io"
	"time"
)

// MaxMembers bounds the instances of a fleet in a list.
const MaxMembers = 1000

// Kinds of a Store.
const (
	StoreNone   = "none"   // budgets are in memory only
	StoreLocal  = "local"  // a state file of this machine
	StoreShared = "shared" // a store that the instances of a fleet share
)

// Store is the state of what keeps budgets. Kind is StoreNone, StoreLocal or StoreShared.
type Store struct {
	Kind     string `json:"kind"`
	Instance string `json:"instance,omitempty"` // this one
	// Since is the time at which the store began to fail, zero if it answers, and Err the error.
	Since time.Time `json:"failing_since,omitzero"`
	Err   string    `json:"error,omitempty"`
	// Answered tells that the store itself answered Err.
	Answered bool `json:"answered,omitempty"`
	// Outages counts the times that the store began to fail.
	Outages uint64 `json:"outages,omitempty"`
	// Loss tells which budgets the store has lost; nil: none, as far as is known.
	Loss *Loss `json:"loss,omitempty"`
	// Warnings lists what is to be changed about the store, each a sentence.
	Warnings []string `json:"warnings,omitempty"`
	// Damage tells what was damaged in the state file and set aside since the process began;
	// nil: nothing.
	Damage     *Damage  `json:"damage,omitempty"`
	Operations uint64   `json:"operations"`
	Failures   uint64   `json:"failures"`
	Mean       float64  `json:"mean_seconds"` // of an operation
	Members    []Member `json:"members,omitempty"`
	Count      int      `json:"member_count,omitempty"` // those that are not listed, too

	// Clock is the lead of the store's clock over this machine's at its last answer; nil: not
	// known.
	Clock *time.Duration `json:"-"`
	// Granted counts the units that the store has granted in windows that are over, and
	// Spent those of them that were used.
	Granted int64 `json:"-"`
	Spent   int64 `json:"-"`
}

// Damage is a state file that was damaged, or rows of one.
type Damage struct {
	At   time.Time `json:"at"`             // when something was found last
	File string    `json:"file,omitempty"` // where the file is now that was set aside
	Why  string    `json:"why,omitempty"`  // it was
	Rows int       `json:"rows,omitempty"` // that were set aside within the file

	Files int `json:"-"` // that were set aside
}

// Loss tells which budgets a store has lost since the process began.
type Loss struct {
	All   uint64    `json:"all"`            // times that it may have lost all of them
	Sites uint64    `json:"sites"`          // times that it has lost those of one site
	At    time.Time `json:"at"`             // the last one
	Site  string    `json:"site,omitempty"` // of which that was; "": of all
	// Until is the time from which lost budgets are granted again: until then the instances
	// tell the store what they hold.
	Until time.Time `json:"until"`
}

// Settles tells whether nothing is granted yet of what was lost.
func (l Loss) Settles(now time.Time) bool { return l.Until.After(now) }

// Sentence says what was lost and what that means.
func (l Loss) Sentence(now time.Time) string {
	of := "what was written down"
	if l.Site != "" {
		of = "budgets of " + Line(l.Site)
	}
	if l.Settles(now) {
		return fmt.Sprintf("the store has lost %s at %s: what is held is said again, and nothing of that is granted until %s",
			of, l.At.UTC().Format(time.RFC3339), l.Until.UTC().Format("15:04:05.0 UTC"))
	}
	return fmt.Sprintf("the store has lost budgets %s, %s at %s", Number(int(min(l.All+l.Sites, 1<<50)), "time", "times"), of, l.At.UTC().Format(time.RFC3339))
}

// Sentence says what was set aside and what that means.
func (d Damage) Sentence() string {
	text := ""
	if d.File != "" {
		text = fmt.Sprintf("the state file was damaged and set aside as %s (%s)", Line(d.File), Line(d.Why))
	}
	if d.Rows > 0 {
		if text != "" {
			text += ", and "
		}
		text += Number(d.Rows, "damaged row", "damaged rows") + " of the state file set aside"
	}
	return fmt.Sprintf("%s, last at %s: what that kept is forgotten", text, d.At.UTC().Format(time.RFC3339))
}

// Member is an instance that uses a store, and when the store heard of it last.
type Member struct {
	ID   string    `json:"id"`
	Name string    `json:"name"`
	Seen time.Time `json:"seen,omitzero"`
	Self bool      `json:"self,omitempty"`
}

// Normalize is s with its members by name and bounded, texts of one line, and times in UTC.
func (s Store) Normalize() Store {
	s.Since, s.Mean = s.Since.UTC(), Finite(s.Mean)
	if s.Err != "" {
		s.Err = Line(s.Err)
	}
	s.Count = max(s.Count, len(s.Members))
	s.Members = listed(s.Members, MaxMembers, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for i := range s.Members {
		member := &s.Members[i]
		member.Name, member.Seen, member.Self = Line(member.Name), member.Seen.UTC(), member.ID == s.Instance
	}
	return s
}

// Fails tells whether it did the last time.
func (s Store) Fails() bool { return !s.Since.IsZero() }

// Sentence describes the state of the store.
func (s Store) Sentence(now time.Time) string {
	text := "budgets are kept on this machine"
	switch {
	case s.Kind == StoreShared:
		text = "budgets are shared by " + Number(max(s.Count, 1), "instance", "instances")
	case s.Count > 1:
		text += fmt.Sprintf(", and %d processes use them together", s.Count)
	}
	if !s.Fails() {
		return text
	}
	what, end := "the state file cannot be written", LostMeanwhile
	if s.Kind == StoreShared {
		what, end = "the store does not answer", ""
		if s.Answered {
			what = "the store does not do what it is asked"
		}
	}
	return fmt.Sprintf("%s, but %s %s, for %s: %s%s", text, what,
		Since(s.Since, now), Long(max(now.Sub(s.Since), 0)), cmp.Or(Line(s.Err), "it does not say why"), end)
}

// LostMeanwhile follows what is wrong with a state file that cannot be written.
const LostMeanwhile = "; what is counted meanwhile is lost if this process ends"

// DescribeStore writes how what keeps budgets is, and who else uses it.
func (s Process) DescribeStore(w io.Writer, now time.Time) {
	if s.Store == nil {
		return
	}
	store := *s.Store
	if store.Err != "" {
		store.Err = "see above" // Troubles has it
	}
	say(w, "%s; %s, %d failed", store.Sentence(now), Number(int(min(s.Store.Operations, 1<<50)), "operation", "operations"), s.Store.Failures)
	if s.Store.Damage != nil {
		say(w, "%s", s.Store.Damage.Sentence())
	}
	for _, one := range s.Store.Warnings {
		say(w, "warning: %s", Line(one))
	}
	if s.Store.Outages > 0 {
		say(w, "it began to fail %s since the start", Number(int(min(s.Store.Outages, 1<<50)), "time", "times"))
	}
	if s.Store.Loss != nil {
		say(w, "%s", s.Store.Loss.Sentence(now))
	}
	local := s.Store.Kind == StoreLocal
	switch {
	case len(s.Store.Members) == 0, local && s.Store.Count == 1:
		return
	case local:
		heading(w, Number(s.Store.Count, "process", "processes"))
	default:
		heading(w, Number(s.Store.Count, "instance", "instances"))
	}
	t := Table{}
	t.Add("INSTANCE", "SEEN", "")
	for _, one := range s.Store.Members {
		self := ""
		if one.Self {
			self = "this one"
		}
		t.Add(one.Name, Ago(one.Seen, now), self)
	}
	t.Write(w)
	rest(w, s.Store.Count-len(s.Store.Members), "")
}
