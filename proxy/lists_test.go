package proxy

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// planFor is the plan of a host with such limits.
func planFor(t *testing.T, limits string) *plan {
	t.Helper()
	s := newBed(t, "sites: [{host: "+host+", limits: ["+limits+"]}]").server
	st := s.state.Load()
	return st.plans[&st.policy.Sites[0]]
}

func TestRequestsThatTheSameLimitsCoverShareTheirList(t *testing.T) {
	p := planFor(t, "{requests: 1, per: 1s}, {requests: 2, per: 1s, by: client}, {requests: 3, per: 1s, path: \"/a/*\"}, {requests: 4, per: 1s, by: route, method: POST}")
	of := func(method, path string) string {
		all, shared := p.needs(&exchange{method: method, path: path})
		if !shared {
			t.Errorf("%s %s has its own list", method, path)
		}
		if want := p.alternatives(&exchange{method: method, path: path}); !reflect.DeepEqual(all, want) {
			t.Errorf("%s %s: %v, not %v", method, path, all, want)
		}
		return fmt.Sprintf("%p", all)
	}
	for range 2 {
		if of("GET", "/b") != of("GET", "/c") || of("GET", "/a/1") != of("HEAD", "/a/2") || of("POST", "/a/1") != of("POST", "/a/2") {
			t.Error("the same list is made twice")
		}
		if of("GET", "/b") == of("GET", "/a/1") || of("POST", "/b") == of("GET", "/b") {
			t.Error("what is not covered by the same has the same list")
		}
	}
}

// Strangers choose paths, and a rule may have any number of limits.
func TestOnlySoManyListsAreKept(t *testing.T) {
	var some, many []string
	for i := range 10 {
		some = append(some, fmt.Sprintf("{requests: %d, per: 1s, path: \"/**/%d/**\"}", i+1, i))
	}
	for i := range mostRouted + 1 {
		many = append(many, fmt.Sprintf("{requests: %d, per: 1s, path: \"/%d\"}", i+1, i))
	}
	p := planFor(t, strings.Join(some, ", "))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for set := range 1 << len(some) {
				x := &exchange{method: "GET"}
				for i := range some {
					if set&(1<<i) != 0 {
						x.path += fmt.Sprintf("/%d", i)
					}
				}
				x.path += "/"
				if got, _ := p.needs(x); !reflect.DeepEqual(got, p.alternatives(x)) {
					t.Errorf("%s: %v", x.path, got)
				}
			}
		})
	}
	all.Wait()
	if n := len(*p.lists.known.Load()); n > mostLists {
		t.Errorf("%d lists are kept", n)
	}
	p = planFor(t, strings.Join(many, ", "))
	last := &exchange{method: "GET", path: fmt.Sprintf("/%d", mostRouted)}
	if got, shared := p.needs(last); shared || len(got[0]) != 1 || got[0][0].Name != p.limits[mostRouted].need.Name {
		t.Errorf("the last of very many: %v", got)
	}
}
