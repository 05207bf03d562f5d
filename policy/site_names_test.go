package policy

import (
	"slices"
	"testing"
)

func TestSitesThatRulesNameAreKnown(t *testing.T) {
	p := load(t, `sites:
  - host: [api.test, "api.test:8443", "*.api.test", "[2001:db8::1]:8443"]
  - {host: [a.example.com, b.example.com], group: domain}
  - {host: ["*.cdn.test", cdn.test], group: rule, name: cdn}
  - {host: "*.below.test"}
  - {host: "*", group: rule}
`)
	want := []string{"api.test", "api.test:8443", "[2001:db8::1]:8443", "example.com", "cdn", "*"}
	if got := p.SiteNames(100); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := p.SiteNames(2); !slices.Equal(got, want[:2]) {
		t.Errorf("%q", got)
	}
	for site, rule := range map[string]int{"api.test": 0, "x.api.test": 0, "api.test:8443": 0, "cdn": 2, "y.below.test": 3, "other.test": 4} {
		if got := p.RuleOf(site); got != &p.Sites[rule] {
			t.Errorf("%s: %v", site, got)
		}
	}
}
