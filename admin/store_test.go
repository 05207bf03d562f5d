package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func someFleet() status.Store {
	return status.Store{
		Kind: "shared", Instance: "2", Operations: 1309, Failures: 2, Mean: 0.0015,
		Members: []status.Member{{ID: "2", Name: "host-b/17", Seen: midday}, {ID: "1", Name: "host-a/12\x1b", Seen: midday.Add(-90 * time.Second)}},
	}
}

func TestTheStatusTellsOfTheStore(t *testing.T) {
	store := someFleet()
	b := newBed(t, func(_ *policy.Policy, o *given) { o.Store = func(context.Context) status.Store { return store } })
	var s status.Process
	if err := json.Unmarshal([]byte(b.get("/api/v1/status").body), &s); err != nil || s.Store == nil {
		t.Fatal(err)
	}
	if s.Store.Count != 2 || s.Store.Members[0].ID != "1" || s.Store.Members[0].Self || !s.Store.Members[1].Self || s.Store.Operations != 1309 {
		t.Errorf("%+v", s.Store)
	}
	if store.Members[0].ID != "2" {
		t.Error("the list of somebody else was changed")
	}
	if r := b.get("/"); !strings.Contains(r.body, ">Fleet</h2>") {
		t.Error(r.body)
	}
	store.Kind = "local"
	if r := b.get("/"); !strings.Contains(r.body, ">Processes</h2>") || !strings.Contains(r.body, "2 processes use them together") {
		t.Error(r.body)
	}
	store.Members = store.Members[:1]
	if r := b.get("/"); strings.Contains(r.body, ">Processes</h2>") {
		t.Error(r.body)
	}
	store = status.Store{Kind: "none"}
	if r := b.get("/api/v1/status"); strings.Contains(r.body, `"store"`) {
		t.Error(r.body)
	}
	store = status.Store{Kind: "local", Since: midday.In(time.FixedZone("", 3600)), Err: "disk\nfull"}
	if r := b.get("/api/v1/status"); !strings.Contains(r.body, `"store":{"kind":"local","failing_since":"2026-11-21T12:00:00Z","error":"disk full","operations":0,"failures":0,"mean_seconds":0}`) {
		t.Error(r.body)
	}
	store = someFleet()
	for i := range status.MaxMembers {
		store.Members = append(store.Members, status.Member{ID: fmt.Sprint("more ", i), Name: "z"})
	}
	if err := json.Unmarshal([]byte(b.get("/api/v1/status").body), &s); err != nil || s.Store.Count != status.MaxMembers+2 || len(s.Store.Members) != status.MaxMembers {
		t.Errorf("%v, %d of %d", err, len(s.Store.Members), s.Store.Count)
	}
}
