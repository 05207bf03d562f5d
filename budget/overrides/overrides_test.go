package overrides

import (
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestWhatCanBeASite(t *testing.T) {
	p, err := policy.Load(policy.Source{
		Path: "test.yaml", Lookup: func(string) (string, bool) { return "", false },
		Data: []byte("sites: [{host: [a.rule.test, b.rule.test], name: the rule, group: rule}, {host: \"*.example.com\", group: domain}]"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"a.test": true, "a.test:8080": true, "::1": true, "[::1]:19080": true, "the rule": true, "example.com": true, "192.0.2.1": true,
		"": false, "http://a.test": false, "a.test/": false, "user:pw@a.test": false, "a.test:80": false, "a.test:0": false, "a.test:99999": false,
		"../..": false, "*": false, "*.test": false, "a b": false, "%": false, "{x}": false, "a..b": false, "[::1]": false, "A.test": false,
		"a.rule.test": false, "www.example.com": false,
	} {
		if got := canBe(p, name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
