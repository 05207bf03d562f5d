package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

func someFleet() Store {
	return Store{
		Kind: "shared", Instance: "2", Operations: 1309, Failures: 2, Mean: 0.0015,
		Members: []Member{{ID: "2", Name: "host-b/17", Seen: midday}, {ID: "1", Name: "host-a/12\x1b", Seen: midday.Add(-90 * time.Second)}},
	}
}

func TestTheStatusTellsOfTheStore(t *testing.T) {
	is := someFleet()
	b := newBed(t, func(_ *policy.Policy, o *Options) { o.Store = func(context.Context) Store { return is } })
	var s Status
	if err := json.Unmarshal([]byte(b.get("/api/v1/status").body), &s); err != nil || s.Store == nil {
		t.Fatal(err)
	}
	if s.Store.Count != 2 || s.Store.Members[0].ID != "1" || s.Store.Members[0].Self || !s.Store.Members[1].Self || s.Store.Operations != 1309 {
		t.Errorf("%+v", s.Store)
	}
	if is.Members[0].ID != "2" {
		t.Error("the list of somebody else was changed")
	}
	if r := b.get("/"); !strings.Contains(r.body, "<h2>Fleet</h2>") {
		t.Error(r.body)
	}
	is.Kind = "local"
	if r := b.get("/"); !strings.Contains(r.body, "<h2>Processes</h2>") || !strings.Contains(r.body, "2 processes use them together") {
		t.Error(r.body)
	}
	is.Members = is.Members[:1]
	if r := b.get("/"); strings.Contains(r.body, "<h2>Processes</h2>") {
		t.Error(r.body)
	}
	is = Store{Kind: "none"}
	if r := b.get("/api/v1/status"); strings.Contains(r.body, `"store"`) {
		t.Error(r.body)
	}
	is = Store{Kind: "local", Since: midday.In(time.FixedZone("", 3600)), Err: "disk\nfull"}
	if r := b.get("/api/v1/status"); !strings.Contains(r.body, `"store":{"kind":"local","failing_since":"2026-11-21T12:00:00Z","error":"disk full","operations":0,"failures":0,"mean_seconds":0}`) {
		t.Error(r.body)
	}
	is = someFleet()
	for i := range maxMembers {
		is.Members = append(is.Members, Member{ID: fmt.Sprint("more ", i), Name: "z"})
	}
	if err := json.Unmarshal([]byte(b.get("/api/v1/status").body), &s); err != nil || s.Store.Count != maxMembers+2 || len(s.Store.Members) != maxMembers {
		t.Errorf("%v, %d of %d", err, len(s.Store.Members), s.Store.Count)
	}
}

func TestTheStoreIsDescribedForPeople(t *testing.T) {
	fleet := someFleet()
	d := &desk{Options: Options{Store: func(context.Context) Store { return fleet }}}
	describe := func(s *Store) string {
		var b strings.Builder
		Status{Store: s}.DescribeStore(&b, midday.Add(time.Millisecond))
		return b.String()
	}
	want := `budgets are shared by 2 instances; 1309 operations, 2 failed

2 instances

INSTANCE    SEEN
host-a/12   1m30s ago
host-b/17   now        this one
`
	if got := describe(d.storeNow(t.Context())); got != want {
		t.Errorf("it is\n%s", got)
	}
	fleet.Members, fleet.Since, fleet.Err = nil, midday.Add(-time.Minute), "redis: \x1bconnection refused"
	want = "budgets are shared by 1 instance, but the store does not answer since 11:59:00 UTC, for 1m1s: redis:  connection refused; 1309 operations, 2 failed\n"
	if got := describe(d.storeNow(t.Context())); got != want {
		t.Errorf("it is\n%s", got)
	}
	want = "budgets are kept on this machine, but the state file cannot be written since 12:00:00 UTC, for 1s: it does not say why; what is counted meanwhile is lost if this process ends; 1 operation, 1 failed\n"
	if got := describe(&Store{Kind: "local", Since: midday, Operations: 1, Failures: 1}); got != want {
		t.Errorf("it is\n%s", got)
	}
	alone := Store{Kind: "local", Instance: "2", Operations: 1309, Members: someFleet().Members[:1]}
	d.Store = func(context.Context) Store { return alone }
	want = "budgets are kept on this machine; 1309 operations, 0 failed\n"
	if got := describe(d.storeNow(t.Context())); got != want {
		t.Errorf("it is\n%s", got)
	}
	alone.Members = someFleet().Members
	want = `budgets are kept on this machine, and 2 processes use them together; 1309 operations, 0 failed

2 processes

INSTANCE    SEEN
host-a/12   1m30s ago
host-b/17   now        this one
`
	if got := describe(d.storeNow(t.Context())); got != want {
		t.Errorf("it is\n%s", got)
	}
	if got := describe(nil); got != "" {
		t.Error(got)
	}
}
