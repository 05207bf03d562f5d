package routes

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatLooksLikeAValueInAPathIsOne(t *testing.T) {
	for path, want := range map[string]string{
		"":                                  "/",
		"/":                                 "/",
		"/users":                            "/users",
		"/users/":                           "/users/",
		"/2/tweets/20/retweeted_by":         "/2/tweets/*/retweeted_by",
		"/1.1/statuses/retweeters/ids.json": "/1.1/statuses/retweeters/ids.json",
		"/1.1/statuses/show/210462857140252672.json":   "/1.1/statuses/show/*",
		"/repos/torvalds/linux/issues/7":               "/repos/torvalds/linux/issues/*",
		"/r/golang/hot":                                "/r/golang/hot",
		"/api/v10/channels/41771983423143937/messages": "/api/v10/channels/*/messages",
		"/rest/api/2/issue/ABC-12345":                  "/rest/api/2/issue/*",
		"/admin/api/2024-01/products.json":             "/admin/api/2024-01/products.json",
		"/v1beta1/projects":                            "/v1beta1/projects",
		"/v1/charges/ch_3MmlLrLkdIwHu7ix0snN0B15":      "/v1/charges/*",
		"/oauth2/token":                                "/oauth2/token",
		"/o/6fa459ea-ee8a-3ca4-894e-db77e160355e/x":    "/o/*/x",
		"/commits/0c1f5b2/status":                      "/commits/*/status",
		"/watch/dQw4w9WgXcQ":                           "/watch/*",
		"/comments/t3_abc123":                          "/comments/*",
		"/@gargron/with_replies":                       "/*/with_replies",
		"/a%20b/c":                                     "/*/c",
		"/caf\xc3\xa9":                                 "/*",
		"/users:batchGet":                              "/users:batchGet",
		"/posts/2026-11-21":                            "/posts/*",
		"/x/" + strings.Repeat("a", 41):                "/x/*",
		"//a":                                          "//a",
		"/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o":               "/a/b/c/d/e/f/g/h/i/j/k/l/**",
	} {
		m := New()
		if got := m.Class("GET", "", path, 0).Route; got != "GET "+want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

func TestAHostAndAMethodArePartOfARoute(t *testing.T) {
	m := New()
	for _, c := range []struct{ method, host, path, want string }{
		{"GET", "api.test", "/a", "GET api.test/a"},
		{"POST", "api.test", "/a", "POST api.test/a"},
		{"GET", "b.test", "/a", "GET b.test/a"},
		{"GET", "bad host", "/a", "GET */a"},
		{"G ET", "", "/a", "* /a"},
		{strings.Repeat("A", 17), "", "/a", "* /a"},
	} {
		if got := m.Class(c.method, c.host, c.path, 0).Route; got != c.want {
			t.Errorf("%v is %q", c, got)
		}
	}
}

func TestAPlaceWithManyNamesHasValues(t *testing.T) {
	m := New()
	for n := range mostKids {
		m.Class("GET", "", fmt.Sprintf("/users/%s/repos", word(n)), 0)
		m.Class("GET", "", "/users/"+word(n), 0)
	}
	if got := m.Class("GET", "", "/users/"+word(3)+"/repos", 0).Route; got != "GET /users/"+word(3)+"/repos" {
		t.Fatalf("it is %q while there are few", got)
	}
	before := m.Version()
	if got := m.Class("GET", "", "/users/another/repos", 0).Route; got != "GET /users/*/repos" {
		t.Fatalf("it is %q when there are many", got)
	}
	if m.Version() == before {
		t.Error("the version is the same, though routes have other names")
	}
	for _, path := range []string{"/users/" + word(3) + "/repos", "/users/new/repos"} {
		if got := m.Class("GET", "", path, 0).Route; got != "GET /users/*/repos" {
			t.Errorf("%q is %q", path, got)
		}
	}
	if got := m.Class("GET", "", "/users/", 0).Route; got != "GET /users/" {
		t.Errorf("the place itself is %q", got)
	}
	if len(m.tree.known) != 3 {
		t.Errorf("%d routes are known, not 3", len(m.tree.known))
	}
}

func TestNamesAtTheRootGrowTogether(t *testing.T) {
	m := New()
	for n := range mostKids + 5 {
		m.Class("GET", "", "/"+word(n)+"/about", 0)
	}
	if got := m.Class("GET", "", "/"+word(1)+"/about", 0).Route; got != "GET /*/about" || len(m.tree.known) != 1 {
		t.Errorf("it is %q, of %d", got, len(m.tree.known))
	}
}

// word is a word without digits.
func word(n int) string { return "w" + string(rune('a'+n/26%26)) + string(rune('a'+n%26)) + "x" }

func TestTemplatesAreShortAndStay(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "api", "v1", "2", "*", "**", "", "users", "0123456789abcdef", "%2e", "x.json"}),
		rapid.StringN(0, 50, 60), rapid.StringMatching(`[a-z]{1,3}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		for range 100 {
			path := "/" + strings.Join(rapid.SliceOfN(piece, 0, 16).Draw(t, "path"), "/")
			apart := rapid.IntRange(0, mostDepth+1).Draw(t, "apart")
			c := m.Class("GET", "", path, apart)
			name := strings.TrimPrefix(c.Route, "GET ")
			if len(name) > len(path)+2+len("~0123456789abcdef") {
				t.Fatalf("%q is the longer %q", path, name)
			}
			if !printable(c.Route) {
				t.Fatalf("%q is %q", path, c.Route)
			}
			if again := m.Class("GET", "", name, apart); again != c {
				t.Fatalf("%q is %q, which is %q", path, name, again.Route)
			}
			if again := m.routeOf(c); again.class != c {
				t.Fatalf("%q is not found again: %q", c.Route, again.name)
			}
		}
	})
}

func TestRoutesThatNobodyUsesLeave(t *testing.T) {
	m := New()
	m.Class("GET", "", "/kept", 0)
	for n := range 3 * mostRoutes {
		m.Class("GET", fmt.Sprintf("h%d.test", n), "/a/b/c", 0)
		m.Class("GET", "", "/kept", 0)
		if len(m.tree.known) > mostRoutes || len(m.tree.hosts) > mostRoutes {
			t.Fatalf("there are %d routes of %d hosts", len(m.tree.known), len(m.tree.hosts))
		}
	}
	if m.tree.known["GET /kept"] == nil {
		t.Error("the one that was used all the time has left")
	}
}
