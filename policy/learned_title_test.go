package policy

import "testing"

func TestALearnedLimitIsNamedAfterItsRoute(t *testing.T) {
	for _, c := range [][3]string{
		{"75 per 15m", "GET /2/tweets/*", "75 per 15m for GET /2/tweets/*"},
		{"75 per 15m for GET /2/tweets/*", "GET /2/tweets/*", "75 per 15m for GET /2/tweets/*"},
		{"5000 of core", "core", "5000 of core"},
		{"75 per 15m", "", "75 per 15m"},
		{"", "core", "core"},
		{"core", "core", "core"},
		{"", "", "all requests"},
	} {
		if got := LearnedTitle(c[0], c[1]); got != c[2] {
			t.Errorf("%q for %q is %q, not %q", c[0], c[1], got, c[2])
		}
	}
}
