package policy

import (
	"strings"
	"testing"
)

// Explain says which limits are known of a service, unless the operator has written some or
// nothing is learned there.
func TestExplainSaysWhatIsKnownOfAService(t *testing.T) {
	for _, c := range []struct {
		text, host, path string
		want             string // "": nothing
	}{
		{"", "nominatim.openstreetmap.org", "/search", "1 request per 1s, known of this service"},
		{"", "api.notion.com", "/v1/pages", "3 requests per 1s, known of this service"},
		{"", "example.org", "/", ""},
		{"sites: [{host: api.notion.com, limits: [{concurrency: 4}]}]", "api.notion.com", "/v1/pages", "3 requests per 1s, known of this service"},
		{"sites: [{host: api.notion.com, limits: [{requests: 9, per: 1s}]}]", "api.notion.com", "/v1/pages", ""},
		{"sites: [{host: api.notion.com, learn: false}]", "api.notion.com", "/v1/pages", ""},
	} {
		var b strings.Builder
		load(t, c.text).Explain(&b, Target{Scheme: "https", Host: c.host, Port: 443}, c.path, false)
		if c.want == "" && strings.Contains(b.String(), "documents") || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s with %q: want %q in\n%s", c.host, c.text, c.want, b.String())
		}
	}
}
