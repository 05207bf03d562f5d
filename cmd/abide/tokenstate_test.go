package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/tokens"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// accounts is a pool of three tokens, of which two are of one account.
func accounts(t *testing.T) proxy.PoolStatus {
	t.Helper()
	config := policy.Pool{Name: "twitter", Put: policy.Put{Where: "header", Name: "Authorization", Before: "Bearer "}}
	for _, label := range []string{"b", "a", "c, d"} {
		config.Tokens = append(config.Tokens, policy.Token{Label: label, Secret: policy.NewSecret("canary-" + strings.ReplaceAll(label, ", ", "-"))})
	}
	loaded, err := tokens.Load(config, tokens.Source{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := tokens.New(noon, config, loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	pool.Unite(noon, pool.Find("a"), pool.Find("b"))
	pool.Begin(noon, pool.Find("a"), "GET /x")
	pool.Cool(noon, pool.Find("a"), "", noon.Add(time.Minute), "Retry-After")
	pool.Spend(noon, pool.Find("c, d"), "GET /x", noon.Add(time.Hour), "x-rate-limit-remaining")
	return proxy.PoolStatus{Name: "twitter", Ready: 1, Tokens: pool.Status(noon)}
}

func TestTokensHaveTheLimitsOfTheirAccounts(t *testing.T) {
	limit := func(pool, token string, left int64) proxy.LimitStatus {
		return proxy.LimitStatus{Site: "api.test", Pool: pool, Token: token, Route: "GET /x", Title: "75 per 15m for GET /x", State: "open", Limit: 75, Remaining: left, Reset: noon.Add(time.Minute), Window: 15 * time.Minute, Foreign: 0.5}
	}
	all := tokensOf([]proxy.PoolStatus{{Name: "empty"}, accounts(t)}, []proxy.LimitStatus{
		limit("twitter", "a, b", 1), limit("twitter", "c, d", 2), limit("", "", 3), limit("twitter", "", 4), limit("other", "a, b", 5),
	})
	want := func(left int64) admin.Announced {
		return admin.Announced{Site: "api.test", Route: "GET /x", Title: "75 per 15m for GET /x", State: "open", Limit: 75, Remaining: left, Reset: noon.Add(time.Minute), Window: 900, Foreign: 0.5}
	}
	if len(all.Pools) != 2 || len(all.Pools[0].Tokens) != 0 || len(all.Pools[1].Tokens) != 3 {
		t.Fatalf("%+v", all)
	}
	if !reflect.DeepEqual(all.Limits, []admin.Announced{want(3), want(4)}) {
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
			got.Fingerprint == "" || !reflect.DeepEqual(got.Limits, []admin.Announced{want(one.left)}) {
			t.Errorf("%+v, want %+v", got, one)
		}
	}
	if spent := all.Pools[1].Tokens[2].Routes; !reflect.DeepEqual(spent, []admin.Paused{{Route: "GET /x", State: "spent", Until: noon.Add(time.Hour), Why: "x-rate-limit-remaining"}}) {
		t.Errorf("%+v", spent)
	}

	known := metricsOf(all)
	if len(known.Tokens) != 3 || len(known.Limits) != 5 || known.Tokens[0] != (metrics.Token{Pool: "twitter", Name: "a", State: "cooling", Uses: 1, Refusals: 1}) {
		t.Errorf("%+v", known)
	}
	first := metrics.Announced{Site: "api.test", Pool: "twitter", Token: "a", Budget: "a, b", Route: "GET /x", Name: "75 per 15m for GET /x", Limit: 75, Remaining: 1, Reset: noon.Add(time.Minute), Foreign: 0.5}
	if known.Limits[0] != first || known.Limits[1].Budget != "a, b" || known.Limits[3].Token != "" {
		t.Errorf("%+v", known.Limits)
	}

	text, err := json.Marshal(all)
	if said := string(text) + fmt.Sprintf("%+v %#v", all, known); err != nil || strings.Contains(said, "canary") {
		t.Errorf("a secret is in %s", said)
	}
}
