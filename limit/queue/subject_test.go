package queue

import (
	"strconv"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestWhatALimitCountsIsComparedWithWhatAnotherDoes(t *testing.T) {
	site := Subject{Unit: "requests"}
	path := func(p string) Subject { return Subject{Unit: "requests", Path: p} }
	get := Subject{Unit: "requests", Method: "GET"}
	by := Subject{Unit: "requests", By: "client"}
	for _, c := range []struct {
		fresh, old Subject
		want       relation
	}{
		{site, site, identical},
		{site, Subject{Unit: "bytes"}, unrelated},
		{site, Subject{}, unrelated},
		{site, Subject{Unit: "requests", At: "a"}, unrelated},
		{path("/a/*"), site, containing},
		{site, path("/a/*"), partial},
		{path("/a/*"), path("/a/*"), identical},
		{path("/a/b"), path("/a/*"), containing},
		{path("/a/*"), path("/a/b"), partial},
		{path("/a/*"), path("/b/*"), unrelated},
		{path("/a/**"), path("/a/b/c"), partial},
		{path("/a/b/c"), path("/a/**"), containing},
		{path("/*/x"), path("/a/*"), containing},
		{path("/a"), path("/a/b"), unrelated},
		{get, site, containing},
		{site, get, partial},
		{site, path("/**"), identical},
		{get, Subject{Unit: "requests", Method: "POST"}, unrelated},
		{site, by, partial},
		{by, site, unrelated},
	} {
		if got := c.fresh.relationTo(c.old); got != c.want {
			t.Errorf("%+v and %+v: %d, not %d", c.fresh, c.old, got, c.want)
		}
	}
}

func TestALimitInheritsFromThoseThatItReplaces(t *testing.T) {
	spent := func(n int64) []limit.Spent { return []limit.Spent{{Ago: time.Duration(n), N: n}} }
	was := []Predecessor{
		{Subject{Unit: "requests", Path: "/a"}, "", 0, spent(3)},
		{Subject{Unit: "requests", Path: "/b"}, "", 0, spent(4)},
		{Subject{Unit: "requests", By: "client"}, "x", 0, spent(20)},
		{Subject{Unit: "bytes"}, "", 0, spent(50)},
	}
	if got := Inherit(Subject{Unit: "requests"}, "", was[:2])[""]; recently(got, far) != 7 || got[0].N != 4 {
		t.Errorf("parts: %v", got)
	}
	if got := Inherit(Subject{Unit: "requests", Path: "/a"}, "", append(was, Predecessor{Subject{Unit: "requests"}, "", 0, spent(9)}))[""]; recently(got, far) != 3 {
		t.Errorf("the same is there: %v", got)
	}
	if got := Inherit(Subject{Unit: "requests", Path: "/c"}, "", append(was, Predecessor{Subject{Unit: "requests"}, "", 0, spent(9)}))[""]; recently(got, far) != 9 {
		t.Errorf("of one that counts more: %v", got)
	}
	if got := Inherit(Subject{Unit: "requests", By: "client", Path: "/a"}, "", was); recently(got["x"], far) != 20 || len(got) != 1 {
		t.Errorf("by client: %v", got)
	}
}

// A limit of everyone takes over what 10,000 clients have spent, while its site waits.
func TestWhatManyClientsHaveSpentIsTakenOver(t *testing.T) {
	var was []Predecessor
	for i := range 10_000 {
		var past []limit.Spent
		for j := range 40 {
			past = append(past, limit.Spent{Ago: time.Duration(100-j)*time.Second + time.Duration(i)*time.Microsecond, N: 1})
		}
		was = append(was, Predecessor{Subject{Unit: "requests", By: "client"}, strconv.Itoa(i), 0, past})
	}
	now, spec := time.Unix(1e9, 0), limit.Spec{As: limit.Rolling, Amount: 1e6, Window: time.Hour}
	m, err := limit.New(spec)
	if err == nil {
		m, err = limit.Add(now, m, Inherit(Subject{Unit: "requests"}, "", was)[""], spec)
	}
	if err != nil || m.Left(now) != 1e6-400_000 {
		t.Errorf("%d of a million are left, %v", m.Left(now), err)
	}
}
