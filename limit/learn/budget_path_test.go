package learn

import (
	"strings"
	"testing"
)

func TestWhatTellsBudgetsApartIsASegmentOfThePath(t *testing.T) {
	dialect := &Dialect{Paths: []string{"/v1/", "/api/"}, Apart: []string{"/*/projects/*", "/api/*/*/*/*"}}
	for _, c := range []struct {
		host, path string
		own        *Dialect
		want       int
	}{
		{"discord.com", "/api/v10/channels/1/messages/2", nil, 4},
		{"DISCORD.com:443", "/api/v10/channels/1", nil, 4},
		{"canary.discord.com", "/api/guilds/1/members", nil, 3},
		{"discord.com", "/api/webhooks/1/secret", nil, 3},
		{"discord.com", "/api/v9/webhooks/1/secret/messages/2", nil, 4},
		{"discord.com", "/api/v10/channels", nil, 0},
		{"discord.com", "/api/v10/channels/", nil, 0},
		{"discord.com", "/api/v10/channels//messages", nil, 0},
		{"discord.com", "/api/v10/users/@me/guilds/1/member", nil, 0}, // these are counted together
		{"discord.com", "/channels/1/messages", nil, 0},
		{"discord.com", "", nil, 0},
		{"discord.com.evil.test", "/api/v10/channels/1", nil, 0},
		{"api.github.com", "/api/v10/channels/1", nil, 0},
		{"api.test", "/v1/projects/7/jobs", dialect, 3},
		{"api.test", "/v2/projects/7/jobs", dialect, 0}, // the dialect is not spoken there
		{"discord.com", "/api/v10/channels/1/messages/2", dialect, 5},
		{"discord.com", "/api/v10/channels/1", dialect, 4},
	} {
		if got := About(Request{Method: "GET", Host: c.host, Path: c.path, Dialect: c.own}).EntitySegment; got != c.want {
			t.Errorf("%s%s: %d, want %d", c.host, c.path, got, c.want)
		}
	}
}

func TestAPathThatTellsNothingApartIsAnError(t *testing.T) {
	for path, must := range map[string]string{
		"":                                   "does not begin with a slash",
		"channels":                           "does not begin with a slash",
		"channels/*":                         "does not begin with a slash",
		"/v1/projects":                       "as /v1/projects/* does",
		"/v1/projects/*/":                    "as /v1/projects/* does",
		"/v1//*":                             "each segment",
		"/v1/**/*":                           "each segment",
		"/v1/a*/*":                           "each segment",
		strings.Repeat("/*", 13):             "more than 12",
		"/v1/*/projects/*":                   "",
		"/*":                                 "",
		"/api/v1" + strings.Repeat("/*", 10): "",
	} {
		d := Dialect{Apart: []string{"/ok/*", path}}
		err := d.Check()
		if must == "" && err != nil || must != "" && (err == nil || !strings.Contains(err.Error(), must) || !strings.HasPrefix(err.Error(), "apart[1]: ")) {
			t.Errorf("%q: %v, want one with %q", path, err, must)
		}
	}
}

func TestAskingWhatTellsBudgetsApartAllocatesNothing(t *testing.T) {
	r := Request{Method: "GET", Host: "discord.com", Path: "/api/v10/channels/41771983423143937/messages", Dialect: &Dialect{Scope: Site}}
	if n := testing.AllocsPerRun(100, func() { About(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkApart(b *testing.B) {
	for _, host := range []string{"api.twitter.com", "discord.com"} {
		r := Request{Method: "GET", Host: host, Path: "/api/v10/channels/41771983423143937/messages"}
		b.Run(host, func(b *testing.B) {
			for b.Loop() {
				About(r)
			}
		})
	}
}
