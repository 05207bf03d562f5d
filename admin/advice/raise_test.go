package advice

import (
	"testing"

	"github.com/abide-proxy/abide/status"
)

func TestARateIsSaidWhereItIsKnown(t *testing.T) {
	const site = "api.test"
	hidden := func(limit int64, window float64) status.Announced {
		return status.Announced{Site: site, Title: "hidden", State: status.Hidden, Limit: limit, Remaining: -1, Window: window}
	}
	soFar := hidden(20, 1)
	soFar.SoFar = true
	afterBlock := soFar
	afterBlock.Blocked = true
	second := status.Limit{Site: site, Limit: "1 request per 1s", Amount: 1, Unit: "requests", Window: 1}
	for _, c := range []struct {
		facts []func(*Facts)
		name  string
		want  string
	}{
		{[]func(*Facts){limits(second)}, second.Limit, "Twice the limit would raise 1/s to 2/s, if the site allows it."},
		{[]func(*Facts){limits(status.Limit{Site: site, Limit: "4 in flight", Amount: 4, Unit: "concurrency"})}, "4 in flight", ""},
		{[]func(*Facts){pool(site, []string{"a"}, status.Announced{Site: site, Title: "5 per 1s", Limit: 5, Window: 1})}, "5 per 1s", "One more token in the pool x would raise 5/s to 10/s."},
		{[]func(*Facts){pool(site, []string{"a"}, status.Announced{Site: site, Title: "5 requests", Limit: 5})}, "5 requests", "One more token in the pool x would give 100 % more."},
		{[]func(*Facts){announced(status.Announced{Site: site, Title: "5 per 1s", Limit: 5, Window: 1})}, "5 per 1s", "The limit is the site's own: fewer requests, or an account of which the site allows more, would help."},
		{[]func(*Facts){announced(hidden(20, 1))}, "hidden", "api.test accepts about 20 in 1s, and does not say so: fewer requests, or an account of which it allows more, would help. If you know its limit, write it under sites, such as limits: [{requests: 1, per: 50ms}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(status.Announced{Site: site, Title: "hidden", State: status.Hidden, Limit: 25, Remaining: 3, Window: 7})}, "hidden", "api.test accepts about 25 in 7s, and does not say so: fewer requests, or an account of which it allows more, would help. If you know its limit, write it under sites, such as limits: [{requests: 25, per: 7s}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(soFar)}, "hidden", "api.test accepts about 20 in 1s so far: it may accept more, or refuse some requests at random. If you know its limit, write it under sites, as limits: [{requests: N, per: T}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(hidden(5, 0))}, "hidden", "api.test accepts 5 at once, and does not say so: fewer requests, or an account of which it allows more, would help. If you know its limit, write it under sites, such as limits: [{concurrency: 5}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(hidden(-1, 0)), blocked(site, "outage", .3)}, "hidden", "api.test answered no request with success for a time, and no refusal shows a limit."},
		{[]func(*Facts){announced(hidden(-1, 0))}, "hidden", "api.test refused requests, and no limit is known that explains it: more requests will tell whether it has one, or refuses some at random."},
		{[]func(*Facts){announced(status.Announced{Site: site, Title: "hidden", State: status.Hidden, Limit: -1, AtRandom: 0.05})}, "hidden", "api.test refuses some requests at random, whatever the rate is: abide sends them again, and nothing here makes them fewer."},
		{[]func(*Facts){announced(status.Announced{Site: site, Title: "hidden", State: status.Hidden, Limit: -1, AtRandom: 0.05})}, "cooldown", "api.test refuses some requests at random, whatever the rate is: abide sends them again, and nothing here makes them fewer."},
		{[]func(*Facts){announced(soFar)}, "retry", "api.test accepts about 20 in 1s so far: it may accept more, or refuse some requests at random. If you know its limit, write it under sites, as limits: [{requests: N, per: T}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){pool(site, []string{"a"}, hidden(20, 1))}, "hidden", "One more token in the pool x would raise 20/s to 40/s."},
		{[]func(*Facts){announced(status.Announced{Site: site, Title: status.HiddenTitle + " for GET /a", State: status.Hidden, Limit: 5, Remaining: -1, Window: 5})}, "cooldown", "api.test accepts about 5 in 5s for GET /a, and does not say so: fewer requests, or an account of which it allows more, would help. If you know its limit, write it under sites, such as limits: [{requests: 1, per: 1s, method: GET, path: /a}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(afterBlock)}, "hidden", "api.test refused everything for a while after too many requests: abide keeps to about 20 in 1s so far since then, and tries no higher rate, because the site may refuse everything again. If you know its limit, write it under sites, as limits: [{requests: N, per: T}], and run abide forget api.test: then nothing is refused to find it."},
		{[]func(*Facts){announced(hidden(20, 1)), limits(second)}, "hidden", "api.test accepts about 20 in 1s, and does not say so: fewer requests, or an account of which it allows more, would help. If more is written under sites, abide forget api.test lets that hold alone."},
		{nil, "cooldown", ""},
	} {
		if got := Raise(factsOf(c.facts...), site, c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
