package budget

import (
	"fmt"
	"testing"
	"time"
)

// TestWhatTheStoreHasToAddOutlivesManyNames: an account forgets names of limits, and not what the store has not added yet.
func TestWhatTheStoreHasToAddOutlivesManyNames(t *testing.T) {
	t.Parallel()
	a := &account{names: map[string]bool{}, additions: map[string]*addition{}}
	a.inherit(time.Now(), "first", &addition{name: "first", before: []string{"old"}}, nil)
	for i := range mostNames + 1 {
		a.inherit(time.Now(), fmt.Sprint(i), &addition{name: fmt.Sprint(i)}, func(string) bool { return false })
	}
	if a.additions["first"] == nil || len(a.names) > mostNames {
		t.Errorf("%d additions and %d names", len(a.additions), len(a.names))
	}
}
