package learn

import (
	"strings"
	"testing"
	"time"
)

func TestAnOperatorsDialectIsReadFirst(t *testing.T) {
	dialect := &Dialect{
		Name: "the operator's", Paths: []string{"/api/"}, ResetUnit: time.Millisecond, Scope: Route,
		Headers: []Header{
			{Name: "calls-left", Is: IsRemaining, Of: "calls", Window: time.Minute},
			{Name: "calls-*", Is: IsLimit, Of: "calls", Window: time.Minute},
		},
		Refusals: []Refusal{
			{Status: []int{200, 400}, Says: []string{"slow down"}, Wait: 30 * time.Second, Scope: Site},
		},
	}
	if err := dialect.Check(); err != nil {
		t.Fatal(err)
	}
	read := func(status int, path, body string, lines ...[2]string) string {
		r := Request{Method: "GET", Host: "api.github.com", Path: path, Dialect: dialect}
		return summary(Read(status, headersOf(lines...), []byte(body), r, base))
	}
	left, most := [2]string{"Calls-Left", "7"}, [2]string{"Calls-Allowed", "9"}
	reset := [2]string{"X-RateLimit-Reset", "600000"}
	for _, c := range []struct{ got, want string }{
		{read(200, "/api/x", "", left, most), "served token 7/9 window 60"},
		{read(200, "/other", "", left, most), "served none"},
		{read(200, "/api/x", "", reset), "served token reset 600"},
		{read(200, "/other", "", reset), "served token reset 600000"},
		{read(200, "/api/x", "please slow down"), "refused site retry 30"},
		{read(404, "/api/x", "please slow down"), "served none"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if !WantsBody(200, Request{Host: "a.example", Path: "/api/x", Dialect: dialect}) || WantsBody(200, Request{Host: "a.example"}) {
		t.Error("the body of a 200 is asked for when no dialect looks at it, or not when one does")
	}
}

func TestADialectSaysWhatIsWrongWithIt(t *testing.T) {
	for must, d := range map[string]Dialect{
		"headers[0].name":      {Headers: []Header{{Name: "X-Rate-Limit", Is: IsLimit}}},
		"stands at the end":    {Headers: []Header{{Name: "x-*-left", Is: IsLimit}}},
		"headers[0].is":        {Headers: []Header{{Name: "x-left", Is: "most"}}},
		"headers[0].form":      {Headers: []Header{{Name: "x-left", Is: IsLimit, Form: "prose"}}},
		"a list needs windows": {Headers: []Header{{Name: "x-left", Is: IsLimit, Form: List}}},
		"refusals[0]":          {Refusals: []Refusal{{}}},
		"refusals[0].until":    {Refusals: []Refusal{{Says: []string{"x"}, Until: "Nowhere/Atall"}}},
		"refusals[1].says":     {Refusals: []Refusal{{Says: []string{"x"}}, {Says: []string{""}}}},
		"body[0].is":           {Body: []Header{{Name: "Left", Is: "most"}}},
	} {
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), must) {
			t.Errorf("%v, want one with %q", err, must)
		}
	}
	for n := range dialects {
		if err := dialects[n].check(); err != nil {
			t.Errorf("%s: %v", dialects[n].Name, err)
		}
	}
}

func TestBodiesAreAskedForOnlyWhereTheyAreRead(t *testing.T) {
	for _, c := range []struct {
		status int
		host   string
		want   bool
	}{
		{404, "a.example", true},
		{200, "a.example", false},
		{301, "api.github.com", false},
		{200, "api.github.com", true},
		{200, "SHOP.myshopify.com:443", true},
		{200, "notgithub.com", false},
		{200, "github.com.evil.example", false},
	} {
		if got := WantsBody(c.status, Request{Host: c.host, Path: "/"}); got != c.want {
			t.Errorf("%d %s: %v", c.status, c.host, got)
		}
	}
}

func TestAResponseWithoutRateHeadersAllocatesNothing(t *testing.T) {
	r := Request{Method: "GET", Host: "www.example.com", Path: "/"}
	body := make([]byte, maxBodyBytes)
	if n := testing.AllocsPerRun(100, func() {
		sink = Read(200, plain, nil, r, base)
		sink = Read(200, plain, body, r, base)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAGlossaryStopsGrowing(t *testing.T) {
	var g nameCache
	for n := range 3 * maxCachedNames {
		g.field("X-Ratelimit-" + strings.Repeat("a", n%80) + time.Duration(n).String())
	}
	if n := g.size.Load(); n > maxCachedNames+1 {
		t.Errorf("%d names are kept", n)
	}
}

func TestMidnightInCaliforniaKeepsItsSummer(t *testing.T) {
	for now, want := range map[string]string{
		"2023-11-14T22:13:20Z": "2023-11-15T08:00:00Z",
		"2023-07-01T06:59:59Z": "2023-07-01T07:00:00Z",
		"2023-07-01T07:00:00Z": "2023-07-02T07:00:00Z",
		"2023-11-05T07:00:00Z": "2023-11-06T08:00:00Z", // a day of 25 hours
	} {
		at, _ := time.Parse(time.RFC3339, now)
		if got := nextMidnight(at, pacific).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", now, got, want)
		}
	}
}
