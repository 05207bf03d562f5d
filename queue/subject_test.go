package queue

import (
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
		want       kin
	}{
		{site, site, same},
		{site, Subject{Unit: "bytes"}, apart},
		{site, Subject{}, apart},
		{site, Subject{Unit: "requests", At: "a"}, apart},
		{path("/a/*"), site, more},
		{site, path("/a/*"), some},
		{path("/a/*"), path("/a/*"), same},
		{path("/a/b"), path("/a/*"), more},
		{path("/a/*"), path("/a/b"), some},
		{path("/a/*"), path("/b/*"), apart},
		{path("/a/**"), path("/a/b/c"), some},
		{path("/a/b/c"), path("/a/**"), more},
		{path("/*/x"), path("/a/*"), some},
		{path("/a"), path("/a/b"), apart},
		{get, site, more},
		{site, get, some},
		{get, Subject{Unit: "requests", Method: "POST"}, apart},
		{site, by, some},
		{by, site, apart},
	} {
		if got := c.fresh.to(c.old); got != c.want {
			t.Errorf("%+v and %+v: %d, not %d", c.fresh, c.old, got, c.want)
		}
	}
}

func TestALimitInheritsFromThoseThatItReplaces(t *testing.T) {
	spent := func(n int64) func(time.Time) []limit.Spent {
		return func(time.Time) []limit.Spent { return []limit.Spent{{Ago: time.Duration(n), N: n}} }
	}
	was := []Former{
		{Subject{Unit: "requests", Path: "/a"}, "", spent(3)},
		{Subject{Unit: "requests", Path: "/b"}, "", spent(4)},
		{Subject{Unit: "requests", By: "client"}, "x", spent(20)},
		{Subject{Unit: "bytes"}, "", spent(50)},
	}
	if got := Inherit(time.Now(), Subject{Unit: "requests"}, "", was[:2])[""]; total(got) != 7 || got[0].N != 4 {
		t.Errorf("parts: %v", got)
	}
	if got := Inherit(time.Now(), Subject{Unit: "requests", Path: "/a"}, "", append(was, Former{Subject{Unit: "requests"}, "", spent(9)}))[""]; total(got) != 3 {
		t.Errorf("the same is there: %v", got)
	}
	if got := Inherit(time.Now(), Subject{Unit: "requests", Path: "/c"}, "", append(was, Former{Subject{Unit: "requests"}, "", spent(9)}))[""]; total(got) != 9 {
		t.Errorf("of one that counts more: %v", got)
	}
	if got := Inherit(time.Now(), Subject{Unit: "requests", By: "client", Path: "/a"}, "", was); total(got["x"]) != 20 || len(got) != 1 {
		t.Errorf("by client: %v", got)
	}
}
