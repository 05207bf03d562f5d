package policy

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// withPath is a limit as it is loaded.
func withPath(t testing.TB, method, path string) *Limit {
	t.Helper()
	r, err := parseRoute(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Limit{Method: method, Path: path, route: r}
}

func TestALimitCoversTheRequestsOfItsRoute(t *testing.T) {
	for pattern, paths := range map[string]struct{ yes, no string }{
		"/":                {"/", "/a // *"},
		"/a":               {"/a /%61", "/ /a/ /A /ab /a%2F /a%00"},
		"/a/":              {"/a/", "/a /a// /a/b"},
		"/2/tweets/*":      {"/2/tweets/1 /2/tweets/ /2/tw%65ets/%2F", "/2/tweets /2/tweets/1/2 /2/users/1 /2/tweets%2F1"},
		"/*":               {"/ /a /%2A /a%2Fb", "/a/ // /a/b"},
		"/*/b":             {"/a/b //b", "/b /a/b/ /a/b/c"},
		"/**":              {"/ /a /a/b/c // /%", "*"},
		"/a/**":            {"/a /a/ /a/b/c", "/ /b /ab"},
		"/**/c":            {"/c /a/c /a/b/c /c/c", "/ /c/ /c/d /a"},
		"/a/**/**/c":       {"/a/c /a/b/c /a/c/c", "/a /c /a/cc"},
		"/a/**/b/**/c":     {"/a/b/c /a/x/b/c/c /a/b/b/y/c", "/a/c /a/c/b /a/b"},
		"/**/a/*/b":        {"/a/x/b /a/a/x/b /a/a/a/b", "/a/b /a/x/b/c"},
		"/café":            {"/caf%C3%A9 /caf%c3%a9", "/caf%E9 /cafe"},
		"/a b":             {"/a%20b", "/a+b"},
		"/a%2Fb":           {"/a%2Fb /a%2fb", "/a/b /a%252Fb"},
		"/100%25":          {"/100%25 /100%", "/100%2525 /100"},
		"/v1/*/users/**":   {"/v1/x/users /v1/x/users/1/2", "/v1/users /v1/x/y/users"},
		"/**/*":            {"/ /a /a/b", "*"},
		"/*/**/*":          {"// /a/b /a/b/c", "/ /a"},
		"/a/**/b/*/c/**/d": {"/a/b/x/c/d /a/b/b/b/x/c/y/d", "/a/b/c/d /a/b/x/d"},
	} {
		l := withPath(t, "", pattern)
		for _, path := range strings.Fields(paths.yes) {
			if !l.Covers("GET", path) {
				t.Errorf("%s does not cover %s", pattern, path)
			}
		}
		for _, path := range strings.Fields(paths.no) {
			if l.Covers("GET", path) {
				t.Errorf("%s covers %s", pattern, path)
			}
		}
	}
	if withPath(t, "", "/").Covers("GET", "") != true || withPath(t, "", "/a").Covers("GET", "") {
		t.Error("an empty path is not that of a bare host")
	}
}

func TestALimitCoversItsMethodOrAll(t *testing.T) {
	get := withPath(t, "GET", "/a")
	if !get.Covers("GET", "/a") || get.Covers("HEAD", "/a") || get.Covers("get", "/a") || get.Covers("GET", "/b") {
		t.Error("GET /a covers something else")
	}
	if l := (&Limit{Method: "POST"}); !l.Covers("POST", "/any") || !l.Covers("POST", "*") || l.Covers("GET", "/any") {
		t.Error("POST covers something else")
	}
	if l := (&Limit{}); !l.Covers("OPTIONS", "*") || !l.Covers("GET", "") {
		t.Error("a limit without a route does not cover everything")
	}
}

func TestALoadedLimitKnowsItsRoute(t *testing.T) {
	p := load(t, "sites: [{host: a.test, limits: &l [{requests: 1, per: 1s, method: GET, path: \"/a/*\"}]}, {host: b.test, limits: *l}]")
	for i := range p.Sites {
		l := &p.Sites[i].Limits[0]
		if l.route == nil || !l.Covers("GET", "/a/b") || l.Covers("GET", "/b/b") {
			t.Errorf("%+v", l)
		}
	}
}

// matches is what covers should be, as it is said: nothing is remembered and
// everything is tried.
func matches(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return matches(pattern[1:], path) || len(path) > 0 && matches(pattern, path[1:])
	case len(path) == 0:
		return false
	}
	return (pattern[0] == "*" || meant(pattern[0]) == meant(path[0])) && matches(pattern[1:], path[1:])
}

func meant(segment string) string {
	text, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return text
}

func TestCoversIsWhatANaiveMatcherFinds(t *testing.T) {
	segments := func(from ...string) *rapid.Generator[[]string] {
		return rapid.SliceOfN(rapid.SampledFrom(from), 1, 9)
	}
	rapid.Check(t, func(rt *rapid.T) {
		pattern := segments("a", "b", "", "%61", "*", "**", "**").Draw(rt, "pattern")
		path := segments("a", "b", "", "%61", "%2F", "c").Draw(rt, "path")
		got := withPath(t, "", "/"+strings.Join(pattern, "/")).Covers("GET", "/"+strings.Join(path, "/"))
		if want := matches(pattern, path); got != want {
			rt.Errorf("/%s covers /%s: %v, want %v", strings.Join(pattern, "/"), strings.Join(path, "/"), got, want)
		}
	})
}

// covers tells whether a path matches.
func covers(r *regexp.Regexp, path string) bool { return r.MatchString(NormalPath(path)) }

func FuzzCovers(f *testing.F) {
	for _, one := range [][2]string{
		{"/", "/"}, {"/2/tweets/*", "/2/tweets/1"}, {"/**/a/*/b", "/a/a/x/b"}, {"/a%2Fb", "/a%2fb"}, {"/**", "*"}, {"/a//**", "/a///"}, {"/**/**/x", "/%"}, {"/100%25", "/100%"},
	} {
		f.Add(one[0], one[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		r, err := parseRoute(pattern)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		if !covers(r, "/x") && pattern == "/**" {
			t.Error("/** does not cover everything")
		}
		parts := strings.Split(pattern[1:], "/")
		if strings.Count(pattern, "**") > 4 || len(path) > 200 {
			covers(r, path)
			return // the naive matcher would take forever
		}
		want := false
		if path == "" {
			want = matches(parts, []string{""})
		} else if path[0] == '/' {
			sent := strings.Split(path[1:], "/")
			if slices.ContainsFunc(sent, func(s string) bool { _, err := url.PathUnescape(s); return err != nil }) {
				covers(r, path)
				return // no path that a URL has
			}
			want = matches(parts, sent)
		}
		if got := covers(r, path); got != want {
			t.Errorf("%q covers %q: %v, want %v", pattern, path, got, want)
		}
	})
}

func TestCoversAllocatesNothingAndEndsSoon(t *testing.T) {
	long := strings.Repeat("/a", 30_000)
	var all []*Limit
	for _, pattern := range []string{"/2/tweets/*", "/**/tweets/**", "/2/%74weets/**/x", "/**/a/a/a/b", "/**/a/**/a/**/a/**/b"} {
		all = append(all, withPath(t, "GET", pattern))
	}
	n := testing.AllocsPerRun(10, func() {
		for _, l := range all {
			l.Covers("GET", "/2/tweets/123")
			l.Covers("GET", long)
		}
	})
	if n != 0 && !raced { // the machines of regular expressions are kept in a sync.Pool
		t.Errorf("%v allocations", n)
	}
}

func TestTitlesAreShortAndTellTheLimitsOfARuleApart(t *testing.T) {
	for text, want := range map[string]string{
		"{requests: 900, per: 15m}":                                     "900 requests per 15m",
		"{requests: 1, per: 1s}":                                        "1 request per 1s",
		"{requests: 900, per: 15m, method: GET, path: \"/2/tweets/*\"}": "900 requests per 15m for GET /2/tweets/*",
		"{requests: 900, per: 15m, method: POST}":                       "900 requests per 15m for POST",
		"{requests: 2, per: 1s, burst: 4, as: bucket, by: client}":      "2 requests per 1s (bucket) by client",
		"{requests: 900, per: day}":                                     "900 requests per day",
		"{requests: 900, per: day, timezone: Europe/Berlin}":            "900 requests per day (Europe/Berlin)",
		"{cost: 100, per: 1h, each: 5, as: first-use}":                  "100 cost per 1h (first-use)",
		"{concurrency: 4}":                                              "4 in flight",
		"{concurrency: 4, path: /a}":                                    "4 in flight for /a",
		"{as: adaptive, min: 0.2/s, max: 20/s}":                         "adaptive between 0.2/s and 20/s",
		"{bytes: 1MB, per: 1m}":                                         "1MB per 1m",
	} {
		if got := load(t, "sites: [{host: a.test, limits: ["+text+"]}]").Sites[0].Limits[0].Title(); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	var texts []string
	for _, unit := range []string{"requests", "cost"} {
		for _, rest := range []string{
			"per: 1m", "per: 1m, as: fixed", "per: 1m, as: first-use", "per: 1m, as: bucket", "per: 1m, as: paced", "per: 60s, by: client, as: paced", "per: 1h", "per: day",
			"per: week", "per: day, timezone: Europe/Berlin", "per: 1m, by: client", "per: 1m, by: route", "per: 1m, method: GET", "per: 1m, path: /a", "per: 1m, method: GET, path: /a",
		} {
			texts = append(texts, "{"+unit+": 10, "+rest+"}")
		}
	}
	texts = append(texts, "{concurrency: 10}", "{concurrency: 10, by: client}", "{as: adaptive, min: 10/s, max: 10/s}", "{as: adaptive, min: 10/s, max: 10/s, by: client}")
	seen := map[string]bool{}
	for _, l := range load(t, "sites: [{host: a.test, limits: ["+strings.Join(texts, ", ")+"]}]").Sites[0].Limits {
		if title := l.Title(); seen[title] {
			t.Errorf("two limits are called %q", title)
		} else {
			seen[title] = true
		}
	}
}

func BenchmarkCovers(b *testing.B) {
	for _, pattern := range []string{"/2/tweets/*", "/**/retweeted_by"} {
		b.Run(strings.ReplaceAll(pattern, "/", "|"), func(b *testing.B) {
			l := withPath(b, "GET", pattern)
			b.ReportAllocs()
			for b.Loop() {
				l.Covers("GET", "/2/tweets/1234567890123456789")
			}
		})
	}
}
