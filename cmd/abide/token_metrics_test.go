package main

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestTokensAreMeasuredWithTheirAccounts(t *testing.T) {
	limit := func(left int64) status.Announced {
		return status.Announced{Site: "api.test", Route: "GET /x", Title: "75 per 15m for GET /x", State: "open", Limit: 75, Remaining: left, Reset: noon.Add(time.Minute), Window: 900, Foreign: 0.5}
	}
	all := status.Tokens{
		Pools: []status.Pool{{Name: "empty"}, {Name: "twitter", Tokens: []status.Token{
			{Label: "a", State: "cooling", Twins: []string{"b"}, Uses: 1, Refusals: 1, Limits: []status.Announced{limit(1)}},
			{Label: "b", State: "cooling", Twins: []string{"a"}, Limits: []status.Announced{limit(1)}},
			{Label: "c, d", State: "ready", Limits: []status.Announced{limit(2)}},
		}}},
		Limits: []status.Announced{limit(3), limit(4)},
	}
	known := metricsOf(all)
	if len(known.Tokens) != 3 || len(known.Limits) != 5 || known.Tokens[0] != (metrics.Token{Pool: "twitter", Name: "a", State: "cooling", Uses: 1, Refusals: 1}) {
		t.Errorf("%+v", known)
	}
	first := metrics.Announced{Site: "api.test", Pool: "twitter", Token: "a", Budget: "a, b", Route: "GET /x", Name: "75 per 15m for GET /x", Limit: 75, Remaining: 1, Reset: noon.Add(time.Minute), Foreign: 0.5}
	if known.Limits[0] != first || known.Limits[1].Budget != "a, b" || known.Limits[3].Token != "" {
		t.Errorf("%+v", known.Limits)
	}
}
