package overrides

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
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

// room are plans that may have no room for limits any more.
type room struct {
	sync.Mutex
	policy *policy.Policy
	none   bool
}

func (r *room) Policy() *policy.Policy { return r.policy }
func (r *room) Apply()                 {}
func (r *room) Fits(string, []policy.Limit) error {
	if r.none {
		return errors.New("there is no room")
	}
	return nil
}

func TestASiteWhoseLimitsDoNotFitAnyMoreIsPausedAndResumed(t *testing.T) {
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n")})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &room{policy: p}
	v := New(Options{Plans: r, Log: log})
	limits := []byte(`{"limits":[{"requests":5,"per":"1m"}]}`)
	if err := v.Set(t.Context(), "api.test", limits); err != nil {
		t.Fatal(err)
	}
	r.none = true
	if err := v.Pause(t.Context(), "api.test", status.Pause{Since: time.Now()}); err != nil {
		t.Error(err)
	}
	if was, err := v.Resume(t.Context(), "api.test"); err != nil || !was {
		t.Errorf("%v, %v", was, err)
	}
	if override := v.All()["api.test"]; len(override.Limits) != 1 || override.Pause != nil {
		t.Errorf("%+v", override)
	}
	if err := v.Set(t.Context(), "other.test", limits); err == nil {
		t.Error("limits are set that do not fit")
	}
}
