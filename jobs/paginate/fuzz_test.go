package paginate

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy/jobfile"
)

func TestLinkHeaders(t *testing.T) {
	page := &url.URL{Scheme: "https", Host: "api.test", Path: "/a"}
	for header, want := range map[string]string{
		`<b>; rel=next`: "b",
		`<b>;rel="prev", <c>; REL = "first NEXT"`:      "c",
		`<b>; title="x, <y>; rel=next"; rel="next"`:    "b",
		`<b>; title="a \" >;rel=x"; rel=next`:          "b",
		`<b,c>; rel=next`:                              "b,c",
		`<b>; rel=prev; rel=next`:                      "",
		`<b>; rel=next; anchor="/other", <c>;rel=next`: "c",
		`<b>; rel=next; anchor=""`:                     "b",
		`<b>; rel=nextish`:                             "",
		`junk, <b>; rel=next`:                          "b",
		`<b; rel=next`:                                 "",
		`<b>; rel="next`:                               "b",
		``:                                             "",
	} {
		if got, has := nextLink(http.Header{"Link": {"<x>; rel=last", header}}, page); got != want || has != (want != "") {
			t.Errorf("%s leads to %q", header, got)
		}
	}
}

func FuzzLink(f *testing.F) {
	first := &url.URL{Scheme: "https", Host: "api.test", Path: "/a"}
	f.Add(`<b>; title="a \" >;rel=x"; rel=next, <c>`)
	f.Add(`<//evil.test/>; rel=next; anchor="https://api.test/a"`)
	f.Add(`<https://api.test@evil.test/>; rel="next"`)
	f.Fuzz(func(t *testing.T, header string) {
		target, has := nextLink(http.Header{"Link": {header}}, first)
		if !has {
			return
		}
		u, err := follow(first, first, target)
		if err != nil {
			return
		}
		if u.Host != first.Host || u.Scheme != first.Scheme || u.User != nil || u.Fragment != "" {
			t.Errorf("%q leads to %s", header, u)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	first := &url.URL{Scheme: "https", Host: "api.test", Path: "/a"}
	f.Add([]byte(`{"found":{"Style":"link"},"pages":3,"url":"/a?p=4","places":{"mark":"x","power":2}}`))
	f.Add([]byte(`{"found":{"Style":"cursor","Param":"c","Next":"next"},"cursor":"x"}`))
	f.Add([]byte(`{"found":{"Style":"link"},"url":"//evil.test/"}`))
	f.Fuzz(func(t *testing.T, checkpoint []byte) {
		w, err := New(jobfile.Pagination{Style: jobfile.AutoPages}, first, nil, checkpoint, &Learned{})
		if err != nil {
			return
		}
		if u := w.Next(); u != nil && (u.Host != first.Host || u.Scheme != first.Scheme) {
			t.Errorf("the checkpoint %s leads to %s", checkpoint, u)
		}
		again, err := New(jobfile.Pagination{Style: jobfile.AutoPages}, first, nil, w.Checkpoint(time.Time{}), &Learned{})
		if err != nil || string(again.Checkpoint(time.Time{})) != string(w.Checkpoint(time.Time{})) {
			t.Errorf("the checkpoint %s is not kept: %v", w.Checkpoint(time.Time{}), err)
		}
	})
}

func TestAPageThatDoesNotExistEndsAWalk(t *testing.T) {
	first := &url.URL{Scheme: "https", Host: "api.test", Path: "/a"}
	for _, test := range []struct {
		p    jobfile.Pagination
		body string
		want State
	}{
		{numbers, data(0, 3), Complete},
		{jobfile.Pagination{Style: jobfile.PagePages, Param: "page", Total: "total"}, data(0, 3, `"total":5`), Incomplete},
		{cursors, data(0, 3, `"next":"a"`), Incomplete},
	} {
		w, err := New(test.p, first, nil, nil, &Learned{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Missing(true); err == nil {
			t.Error("the first page may be missing")
		}
		if step, err := w.Answer(pageOf(t, first, asked{body: test.body})); err != nil || step.State != Going {
			t.Fatalf("%+v, %v", step, err)
		}
		if step, err := w.Missing(true); err != nil || step.State != test.want || w.Next() != nil {
			t.Errorf("%s: the walk is %s: %s, %v", test.p.Style, step.State, step.Reason, err)
		}
	}
}
