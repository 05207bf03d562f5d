package status

import (
	"strings"
	"testing"
	"time"
)

func TestTheStoreIsDescribedForPeople(t *testing.T) {
	fleet := someFleet()
	describe := func(s Store) string {
		var b strings.Builder
		Process{Store: &s}.DescribeStore(&b, midday.Add(time.Millisecond))
		return b.String()
	}
	want := `budgets are shared by 2 instances; 1309 operations, 2 failed

2 instances

INSTANCE    SEEN
host-a/12   1 min 30 s ago
host-b/17   now             this one
`
	if got := describe(fleet.Normalize()); got != want {
		t.Errorf("it is\n%s", got)
	}
	fleet.Members, fleet.Since, fleet.Err = nil, midday.Add(-time.Minute), "redis: \x1bconnection refused"
	want = "budgets are shared by 1 instance, but the store does not answer since 11:59:00 UTC, for 1 min 00 s: see above; 1309 operations, 2 failed\n"
	if got := describe(fleet.Normalize()); got != want {
		t.Errorf("it is\n%s", got)
	}
	want = "budgets are kept on this machine, but the state file cannot be written since 12:00:00 UTC, for 0 s: it does not say why; what is counted meanwhile is lost if this process ends; 1 operation, 1 failed\n"
	if got := describe(Store{Kind: "local", Since: midday, Operations: 1, Failures: 1}); got != want {
		t.Errorf("it is\n%s", got)
	}
	alone := Store{Kind: "local", Instance: "2", Operations: 1309, Members: someFleet().Members[:1]}
	want = "budgets are kept on this machine; 1309 operations, 0 failed\n"
	if got := describe(alone.Normalize()); got != want {
		t.Errorf("it is\n%s", got)
	}
	alone.Members = someFleet().Members
	want = `budgets are kept on this machine, and 2 processes use them together; 1309 operations, 0 failed

2 processes

INSTANCE    SEEN
host-a/12   1 min 30 s ago
host-b/17   now             this one
`
	if got := describe(alone.Normalize()); got != want {
		t.Errorf("it is\n%s", got)
	}
	var b strings.Builder
	if (Process{}).DescribeStore(&b, midday); b.String() != "" {
		t.Error(b.String())
	}
}

func someFleet() Store {
	return Store{
		Kind: "shared", Instance: "2", Operations: 1309, Failures: 2, Mean: 0.0015,
		Members: []Member{{ID: "2", Name: "host-b/17", Seen: midday}, {ID: "1", Name: "host-a/12\x1b", Seen: midday.Add(-90 * time.Second)}},
	}
}
