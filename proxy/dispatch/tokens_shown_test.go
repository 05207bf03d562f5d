package dispatch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/tokens"
)

var tokensNoon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// poolOfAccounts is a pool of three tokens, of which two are of one account.
func poolOfAccounts(t *testing.T) status.Pool {
	t.Helper()
	config := policy.Pool{Name: "twitter", Put: policy.Placement{Where: "header", Name: "Authorization", Before: "Bearer "}}
	for _, label := range []string{"b", "a", "c, d"} {
		account := ""
		if label != "c, d" {
			account = "one"
		}
		config.Tokens = append(config.Tokens, policy.Token{Label: label, Account: account, Secret: policy.NewSecret("canary-" + strings.ReplaceAll(label, ", ", "-"))})
	}
	loaded, err := tokens.Load(t.Context(), config, tokens.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := tokens.New(tokensNoon, config, loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	pool.Begin(tokensNoon, pool.Find("a"), "GET /x")
	pool.Cool(tokensNoon, pool.Find("a"), "", tokensNoon.Add(time.Minute), "Retry-After")
	pool.Spend(tokensNoon, pool.Find("c, d"), "GET /x", tokensNoon.Add(time.Hour), "x-rate-limit-remaining")
	return pool.Status(tokensNoon)
}

// TestATokenOfWhichNothingIsLeftIsNotReady: it is spent until the first limit resets.
func TestATokenOfWhichNothingIsLeftIsNotReady(t *testing.T) {
	of := func(left int64, reset time.Duration, route string) LimitStatus {
		return LimitStatus{status.Announced{Site: "api.test", Route: route, Limit: 10, Remaining: left, Reset: tokensNoon.Add(reset)}, "twitter", "c, d"}
	}
	little := of(6, time.Minute, "a")
	little.State = "spent" // a request takes more
	other := of(5, time.Minute, "b")
	other.Token = "a, b"
	for name, c := range map[string]struct {
		limits []LimitStatus
		spent  time.Duration
	}{
		"too little is left":                {[]LimitStatus{little}, time.Minute},
		"nothing is left":                   {[]LimitStatus{of(0, time.Minute, "a")}, time.Minute},
		"nothing is left for two routes":    {[]LimitStatus{of(0, time.Minute, "a"), of(0, time.Second, "b")}, time.Second},
		"something is left for one":         {[]LimitStatus{of(0, time.Minute, "a"), of(1, time.Second, "b")}, 0},
		"nothing is left of one of a route": {[]LimitStatus{of(0, time.Minute, "a"), of(1, time.Second, "a")}, time.Minute},
		"the limit of one is not known":     {[]LimitStatus{of(0, time.Minute, "a"), other}, 0},
		"the reset is over":                 {[]LimitStatus{of(0, -time.Second, "a")}, 0},
		"nothing is known":                  {nil, 0},
	} {
		pool := tokensOf([]status.Pool{poolOfAccounts(t)}, c.limits, nil, tokensNoon).Pools[0]
		token, ready := pool.Tokens[2], 1
		if c.spent > 0 {
			ready = 0
		}
		if (token.State == "spent") != (c.spent > 0) || c.spent > 0 && !token.Until.Equal(tokensNoon.Add(c.spent)) || pool.Ready != ready || c.spent > 0 && (token.Why == tooLittleLeft) != (name == tooLittleLeft) {
			t.Errorf("%s: %s (%s) until %v, %d ready", name, token.State, token.Why, token.Until, pool.Ready)
		}
	}
}

func TestTokensHaveTheLimitsOfTheirAccounts(t *testing.T) {
	want := func(left int64) status.Announced {
		return status.Announced{Site: "api.test", Route: "GET /x", Title: "75 per 15m for GET /x", State: "open", Limit: 75, Remaining: left, Reset: tokensNoon.Add(time.Minute), Window: 900, Foreign: 0.5}
	}
	limit := func(pool, token string, left int64) LimitStatus { return LimitStatus{want(left), pool, token} }
	all := tokensOf([]status.Pool{{Name: "empty"}, poolOfAccounts(t)}, []LimitStatus{
		limit("twitter", "a, b", 1), limit("twitter", "c, d", 2), limit("", "", 3), limit("twitter", "", 4), limit("other", "a, b", 5),
	}, nil, tokensNoon)
	if len(all.Pools) != 2 || all.Pools[1].Ready != 1 || len(all.Pools[0].Tokens) != 0 || len(all.Pools[1].Tokens) != 3 {
		t.Fatalf("%+v", all)
	}
	if !reflect.DeepEqual(all.Limits, []status.Announced{want(3), want(4)}) {
		t.Errorf("without a token: %+v", all.Limits)
	}
	for i, one := range []struct {
		label, state, why, twins string
		left                     int64
		uses                     uint64
	}{
		{"a", "cooling", "Retry-After", "[b]", 1, 1},
		{"b", "cooling", "Retry-After", "[a]", 1, 0},
		{"c, d", "ready", "", "[]", 2, 0},
	} {
		got := all.Pools[1].Tokens[i]
		if got.Label != one.label || got.State != one.state || got.Why != one.why || fmt.Sprint(got.Twins) != one.twins || got.Uses != one.uses ||
			got.Fingerprint == "" || !reflect.DeepEqual(got.Limits, []status.Announced{want(one.left)}) {
			t.Errorf("%+v, want %+v", got, one)
		}
	}
	if spent := all.Pools[1].Tokens[2].Routes; !reflect.DeepEqual(spent, []status.Paused{{Route: "GET /x", State: "spent", Until: tokensNoon.Add(time.Hour), Why: "x-rate-limit-remaining"}}) {
		t.Errorf("%+v", spent)
	}

	text, err := json.Marshal(all)
	if said := string(text) + fmt.Sprintf("%+v", all); err != nil || strings.Contains(said, "canary") {
		t.Errorf("a secret is in %s", said)
	}
}
