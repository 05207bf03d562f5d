package redact

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatLooksLikeASecretIsNotInAPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "/", "/2/tweets/1234567890123456789": "/2/tweets/1234567890123456789",
		"/users/550e8400-e29b-41d4-a716-446655440000":            "/users/550e8400-e29b-41d4-a716-446655440000",
		"/a/how-to-cook-10-eggs-in-20-minutes.html":              "/a/how-to-cook-10-eggs-in-20-minutes.html",
		"/internationalisations":                                 "/internationalisations",
		"/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe":    "/X/getMe",
		"/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXX12": "/services/T00000000/B00000000/X",
		"/api/webhooks/1/Zk9%2D0aaaaaaaaaaaaaaaaaa1":             "/api/webhooks/1/X",
		"/%61bcdefgh12345678":                                    "/X",
	} {
		if got := Path(path, "X"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestAPathKeepsItsSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`(/[a-zA-Z0-9%._~:-]{0,30}){0,6}`).Draw(t, "path")
		got := Path(path, "X")
		if strings.Count(got, "/") != strings.Count(path, "/") {
			t.Fatalf("%q", got)
		}
		for _, one := range strings.Split(got, "/") {
			if looksSecret(one) {
				t.Fatalf("%q", got)
			}
		}
	})
}
