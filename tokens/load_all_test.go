package tokens

import (
	"errors"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestAllPoolsAreReadAndEveryFaultHasALine(t *testing.T) {
	p, err := policy.Load(policy.Source{Path: "abide.yaml", Data: []byte(`pools:
  good: {tokens: [{label: one, secret: canary-1}]}
  unset: {env: NONE}
  bad: {tokens: [{label: two, secret: "canary 2"}]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := LoadAll(t.Context(), p, Surroundings{Lookup: func(string) (string, bool) { return "", false }})
	var faults policy.Faults
	if !errors.As(err, &faults) || len(faults) != 2 || len(all) != 1 || len(all["good"].Entries) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []string{"abide.yaml:3: pools.unset: NONE: the variable is not set or empty", "abide.yaml:4: pools.bad.tokens[0].secret has a space inside"} {
		if got := faults[i].Error(); !strings.HasPrefix(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%s, want %s", got, want)
		}
	}
	placed := FaultsAt(p, &p.Pools[0], errors.New("is odd"))
	if len(placed) != 1 || placed[0].Error() != "abide.yaml:2: pools.good: is odd" {
		t.Error(placed)
	}
	p, err = policy.Load(policy.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := LoadAll(t.Context(), p, Surroundings{}); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
