package policy

import "path/filepath"

// Storage is where state is kept: the data directory, the CA and the store of budgets.
type Storage struct {
	Data string // absolute directory, or "none" to keep nothing
	// StrictState ends abide when the state of an earlier run cannot be read; without it
	// that state is set aside.
	StrictState bool
	CA          CA
	Store       Store
}

// dataDir is where the XDG base directories put state; without a home there is
// nowhere to keep any.
func dataDir(lookup func(string) (string, bool)) string {
	if state, ok := lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(state) {
		return filepath.Join(state, "abide")
	}
	if home, ok := lookup("HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "abide")
	}
	return "none"
}
