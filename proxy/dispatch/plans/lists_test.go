package plans

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
)

// planFor is the plan of a host with such limits.
func planFor(t *testing.T, limits string) *Plan {
	t.Helper()
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\nsites: [{host: api.test, limits: [" + limits + "]}]"), Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Make(p, Parts{
		Loads:  &backends.Loads{},
		Meters: func(*policy.Site, *policy.Limit, *limit.Spec) queue.MeterSource { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return all[&p.Sites[0]]
}

func TestRequestsThatTheSameLimitsCoverShareTheirList(t *testing.T) {
	p := planFor(t, "{requests: 1, per: 1s}, {requests: 2, per: 1s, by: client}, {requests: 3, per: 1s, path: \"/a/*\"}, {requests: 4, per: 1s, by: route, method: POST}")
	of := func(method, path string) string {
		all, shared := p.Needs(&Subject{Method: method, Path: path})
		if shared == nil {
			t.Errorf("%s %s has its own list", method, path)
		}
		if want := p.alternatives(&Subject{Method: method, Path: path}); !reflect.DeepEqual(all, want) {
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
				x := &Subject{Method: "GET"}
				for i := range some {
					if set&(1<<i) != 0 {
						x.Path += fmt.Sprintf("/%d", i)
					}
				}
				x.Path += "/"
				if got, _ := p.Needs(x); !reflect.DeepEqual(got, p.alternatives(x)) {
					t.Errorf("%s: %v", x.Path, got)
				}
			}
		})
	}
	all.Wait()
	if n := len(*p.lists.known.Load()); n > mostLists {
		t.Errorf("%d lists are stored", n)
	}
	p = planFor(t, strings.Join(many, ", "))
	last := &Subject{Method: "GET", Path: fmt.Sprintf("/%d", mostRouted)}
	if got, shared := p.Needs(last); shared != nil || len(got[0]) != 1 || got[0][0].Name != p.Limits[mostRouted].Need.Name {
		t.Errorf("the last of very many: %v", got)
	}
}
