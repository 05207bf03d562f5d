package metrics

import (
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/status"
)

type (
	testToken struct {
		Pool, Name, State       string
		Uses, Refusals, Denials uint64
	}
	testLimit struct {
		Site, Pool, Token, Budget, Route, Name string
		Limit, Remaining                       int64
		Reset                                  time.Time
		Foreign                                float64
	}
	testKnown struct {
		Tokens  []testToken
		Limits  []testLimit
		Written []status.Limit
	}
)

// known has the tokens in their pools, and tokens of one budget as twins.
func (k testKnown) known() Known {
	pools, limits, twins := map[string][]status.Token{}, map[pair][]status.Announced{}, map[pair]map[string]bool{}
	for _, one := range k.Limits {
		limits[pair{one.Pool, one.Token}] = append(limits[pair{one.Pool, one.Token}], status.Announced{
			Site: one.Site, Route: one.Route, Title: one.Name, Limit: one.Limit, Remaining: one.Remaining, Reset: one.Reset, Foreign: one.Foreign,
		})
		budget := pair{one.Pool, one.Budget}
		if twins[budget] == nil {
			twins[budget] = map[string]bool{}
		}
		twins[budget][one.Token] = true
	}
	known := Known{Written: k.Written}
	known.Limits = limits[pair{}]
	for _, one := range k.Tokens {
		token := status.Token{Label: one.Name, State: one.State, Uses: one.Uses, Refusals: one.Refusals, Denials: one.Denials, Limits: limits[pair{one.Pool, one.Name}]}
		for at, labels := range twins {
			if at[0] == one.Pool && labels[one.Name] {
				delete(labels, one.Name)
				token.Twins = slices.Collect(maps.Keys(labels))
				labels[one.Name] = true
			}
		}
		pools[one.Pool] = append(pools[one.Pool], token)
	}
	for name, tokens := range pools {
		known.Pools = append(known.Pools, status.Pool{Name: name, Tokens: tokens})
	}
	return known
}

// knowing has metrics that know this.
func knowing(m *Metrics, k testKnown) {
	known := k.known()
	m.Tokens.Ask(func() Known { return known })
}

var someReset = time.Unix(1_800_000_000, 500_000_000)

func someTokens() testKnown {
	return testKnown{
		Tokens: []testToken{
			{"twitter", "a", "ready", 10, 1, 0},
			{"twitter", "b", "cooling", 20, 2, 0},
			{"twitter", "twin of b", "quarantined", 0, 0, 3},
			{"github", "a", "disabled", 5, 0, 0},
		},
		Limits: []testLimit{
			{"api.test", "twitter", "a", "a", "GET /x", "75 per 15m for GET /x", 75, 60, someReset, 0.25},
			{"api.test", "twitter", "a", "a", "GET /x", "1000 per day for GET /x", 1000, 10, someReset.Add(time.Hour), 0},
			{"api.test", "twitter", "a", "a", "GET /y", "GET /y", -1, -1, time.Time{}, 0},
			{"api.test", "twitter", "b", "b", "GET /x", "75 per 15m for GET /x", 75, 0, someReset, 0},
			{"api.test", "twitter", "twin of b", "b", "GET /x", "75 per 15m for GET /x", 75, 0, someReset, 0.5},
			{"api.test", "", "", "", "", "60 per 1m", 60, 15, someReset, 0},
			{"unknown.test", "", "", "", "", "60 per 1m", 60, 59, someReset, 0},
			{"api.test", "github", "a", "a", "", "core", 5000, 6000, someReset, 0},
		},
	}
}

func TestTokensHaveWhatIsLeftAndTheirStates(t *testing.T) {
	m := New(1)
	m.Site("api.test")
	expect(t, m, 0, "abide_token_state")
	knowing(m, someTokens())
	for _, one := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{60, "abide_token_remaining", []string{"pool", "twitter", "token", "a", "route", "GET /x", "limit", "75 per 15m for GET /x"}},
		{10, "abide_token_remaining", []string{"pool", "twitter", "token", "a", "route", "GET /x", "limit", "1000 per day for GET /x"}},
		{1_800_003_600.5, "abide_token_reset_timestamp_seconds", []string{"pool", "twitter", "token", "a", "route", "GET /x", "limit", "1000 per day for GET /x"}},
		{0, "abide_token_remaining", []string{"pool", "twitter", "token", "a", "route", "GET /y"}},
		{6000, "abide_token_remaining", []string{"pool", "github", "token", "a", "route", "core"}},
		{1, "abide_token_state", []string{"pool", "twitter", "token", "a", "state", "ready"}},
		{1, "abide_token_state", []string{"pool", "twitter", "token", "a"}},
		{1, "abide_token_state", []string{"pool", "twitter", "token", "b", "state", "cooling"}},
		{1, "abide_token_state", []string{"token", "twin of b", "state", "quarantined"}},
		{1, "abide_token_state", []string{"pool", "github", "token", "a", "state", "disabled"}},
		{30, "abide_token_uses_total", []string{"pool", "twitter"}},
		{2, "abide_token_refusals_total", []string{"pool", "twitter", "token", "b"}},
		{3, "abide_token_denials_total", []string{"token", "twin of b"}},
		{0.25, "abide_token_foreign_ratio", []string{"pool", "twitter", "token", "a"}},
		{0.5, "abide_token_foreign_ratio", []string{"token", "twin of b"}},
		// The twins of b have one budget, which counts once.
		{60, "abide_limit_remaining", []string{"site", "api.test", "limit", "75 per 15m for GET /x"}},
		{0.6, "abide_limit_usage_ratio", []string{"site", "api.test", "limit", "75 per 15m for GET /x"}},
		{0.75, "abide_limit_usage_ratio", []string{"site", "api.test", "limit", "60 per 1m"}},
		{0, "abide_limit_usage_ratio", []string{"limit", "core"}},
		{59, "abide_limit_remaining", []string{"site", "other"}},
	} {
		expect(t, m, one.want, one.name, one.labels...)
	}
	if n := len(scrape(t, m)["abide_token_state"].Metric); n != 4*len(tokenStates) {
		t.Errorf("%d series of states", n)
	}
	if n := len(scrape(t, m)["abide_token_remaining"].Metric); n != 5 {
		t.Errorf("%d series of what is left", n)
	}
	knowing(m, testKnown{})
	for _, name := range []string{"abide_token_state", "abide_token_uses_total", "abide_limit_remaining"} {
		if f := scrape(t, m)[name]; f != nil {
			t.Errorf("nothing is known any more, and there is %v", f)
		}
	}
}

func TestATokenIsReadAsAnAlertReadsIt(t *testing.T) {
	m := New(10)
	knowing(m, someTokens())
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"# TYPE abide_token_uses_total counter\n", "# TYPE abide_token_state gauge\n",
		`abide_token_remaining{limit="1000 per day for GET /x",pool="twitter",route="GET /x",token="a"} 10` + "\n",
		`abide_token_state{pool="twitter",state="quarantined",token="twin of b"} 1` + "\n",
		`abide_token_state{pool="twitter",state="ready",token="twin of b"} 0` + "\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the text lacks %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(w.Body.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range problems {
		if strings.HasPrefix(one.Metric, "abide_") {
			t.Errorf("%s: %s", one.Metric, one.Text)
		}
	}
}

func TestTokensAndTheirRoutesAreBounded(t *testing.T) {
	m := New(3)
	var k testKnown
	for i := range maxTokens + 50 {
		name := fmt.Sprintf("t%05d", i)
		k.Tokens = append(k.Tokens, testToken{"big", name, tokenStates[i%5], 1, 2, 3})
		for r := range 3 {
			// Each of those that are not told apart has routes of its own.
			k.Limits = append(k.Limits, testLimit{"a.test", "big", name, name, fmt.Sprint("r", i, "-", r), fmt.Sprint("l", i, "-", r), 100, 50, someReset, 0.1})
		}
	}
	for r := range 500 {
		k.Limits = append(k.Limits, testLimit{"a.test", "big", "t00000", "t00000", fmt.Sprint("s", r), fmt.Sprint("s", r), 100, 50, someReset, 0.1})
	}
	for i := range 500 {
		m.Site(fmt.Sprint(i, ".test"))
		k.Limits = append(k.Limits, testLimit{fmt.Sprint(i, ".test"), "", "", "", "", fmt.Sprint(i), 10, 5, someReset, 0})
	}
	m.Site("a.test")
	knowing(m, k)
	families := scrape(t, m)
	for name, most := range map[string]int{
		"abide_token_state": 5 * (maxTokens + 1), "abide_token_uses_total": maxTokens + 1, "abide_token_foreign_ratio": maxTokens + 1,
		"abide_token_remaining": 3*(maxTokens-1) + 2*(maxRoutes+1), "abide_token_reset_timestamp_seconds": 3*(maxTokens-1) + 2*(maxRoutes+1),
		"abide_limit_remaining": 4 * (maxRoutes + 1),
	} {
		if n := len(families[name].GetMetric()); n > most {
			t.Errorf("%s has %d series", name, n)
		}
	}
	expect(t, m, 10, "abide_token_state", "token", "other", "state", "ready")
	expect(t, m, 50, "abide_token_uses_total", "token", "other")
	expect(t, m, 50, "abide_token_remaining", "token", "t00000", "route", "other")
	for r, sum := range map[string]float64{"r1000-0": 50, "r1020-1": 50} {
		expect(t, m, sum, "abide_token_remaining", "token", "other", "route", r)
	}
}

func TestTokensThatAreNotToldApartAreSummed(t *testing.T) {
	m := New(3)
	var k testKnown
	for i := range maxTokens + 4 {
		name := fmt.Sprintf("t%05d", i)
		k.Tokens = append(k.Tokens, testToken{"big", name, "ready", 1, 0, 0})
		k.Limits = append(k.Limits,
			testLimit{"a.test", "big", name, fmt.Sprint("account ", i/2), "GET /x", "1", 100, int64(i - 900), someReset.Add(-time.Duration(i) * time.Second), 0.1},
			testLimit{"a.test", "big", name, fmt.Sprint("account ", i/2), "GET /x", "2", 100, 1000, someReset.Add(-time.Hour), 0.1})
	}
	knowing(m, k)
	// Two accounts of two tokens each: 100 and 102 are left.
	expect(t, m, 202, "abide_token_remaining", "token", "other", "limit", "1")
	if got := value(t, m, "abide_token_reset_timestamp_seconds", "token", "other", "limit", "1"); got != 1_800_000_000.5-1002 {
		t.Errorf("the first reset is %.1f", got)
	}
}

func TestCountsOfTokensNeverFallWhileTheyComeAndGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := New(3)
		m.Tokens.most = 3
		live := map[string]*testToken{}
		m.Tokens.Ask(func() Known {
			var k testKnown
			for _, one := range live {
				k.Tokens = append(k.Tokens, *one)
			}
			return k.known()
		})
		var last float64
		for i := range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for j := range rapid.IntRange(0, 8).Draw(rt, "steps") {
				switch name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(live)), "new")).Draw(rt, "name"); {
				case name == "new":
					name = fmt.Sprintf("%s%d.%d", rapid.StringMatching(`[a-h]`).Draw(rt, "first"), i, j)
					live[name] = &testToken{"p", name, "ready", 0, 0, 0}
				case rapid.Bool().Draw(rt, "leave"):
					delete(live, name)
				default:
					live[name].Uses += rapid.Uint64Range(0, 100).Draw(rt, "uses")
				}
			}
			now := map[string]float64{}
			for _, one := range scrape(t, m)["abide_token_uses_total"].GetMetric() {
				now[one.Label[1].GetValue()] = one.GetCounter().GetValue()
			}
			if now["other"] < last {
				rt.Fatalf("other fell from %v to %v", last, now["other"])
			}
			last = now["other"]
			delete(now, "other")
			if len(now) != min(len(live), m.Tokens.most) {
				rt.Fatalf("%d of %d are told apart", len(now), len(live))
			}
			for name, uses := range now {
				if uses > float64(live[name].Uses) {
					rt.Fatalf("%s has %v uses, not %d", name, uses, live[name].Uses)
				}
			}
		}
	})
}

func TestLabelsOfTokensAreOnesThatPrometheusTakes(t *testing.T) {
	names := []string{`a"b`, "a\nb", `a\b`, "a\xffb", "a\xfeb", "", "\x00", "日本", strings.Repeat("x", 300), strings.Repeat("x", 301), "other", "__name__"}
	m := New(100)
	var k testKnown
	for i, name := range names {
		m.Site(name)
		k.Tokens = append(k.Tokens, testToken{name, name, name, 1, 1, 1}, testToken{"p", name, "ready", 1, 1, 1})
		k.Limits = append(k.Limits,
			testLimit{name, name, name, name, name, name, math.MaxInt64, math.MaxInt64, time.Unix(1<<40, 0), math.NaN()},
			testLimit{name, "p", name, name, name, name, math.MinInt64, math.MaxInt64, time.Time{}, math.Inf(1)},
			testLimit{name, "", "", "", name, name, int64(i), 1, someReset, -1})
	}
	k.Tokens = append(k.Tokens, k.Tokens...) // nobody should
	knowing(m, k)
	for name, family := range scrape(t, m) {
		for _, one := range family.Metric {
			if v := one.GetGauge().GetValue(); strings.HasPrefix(name, "abide_") && (math.IsNaN(v) || v < 0) {
				t.Errorf("%s is %v", name, v)
			}
			for _, l := range one.Label {
				if !utf8.ValidString(l.GetValue()) || len(l.GetValue()) > maxLabel ||
					strings.HasPrefix(name, "abide_token") && !slices.Contains([]string{"pool", "token", "route", "limit", "state"}, l.GetName()) {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
	expect(t, m, 2, "abide_token_uses_total", "pool", "p", "token", "a\uFFFDb")
}

func BenchmarkScrapeTokens(b *testing.B) {
	m := New(1000)
	var k testKnown
	for i := range 100 {
		name := fmt.Sprint("t", i)
		k.Tokens = append(k.Tokens, testToken{"p", name, "ready", 1, 1, 1})
		for r := range 10 {
			k.Limits = append(k.Limits, testLimit{"api.test", "p", name, name, fmt.Sprint("r", r), fmt.Sprint("r", r), 75, 10, someReset, 0})
		}
	}
	knowing(m, k)
	h := m.Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}

func TestTwinsHaveOneBudgetBetweenThem(t *testing.T) {
	limit := func(left int64) []status.Announced {
		return []status.Announced{{Site: "api.test", Route: "GET /x", Title: "75 per 15m for GET /x", Limit: 75, Remaining: left}}
	}
	m := New(10)
	m.Site("api.test")
	m.Tokens.Ask(func() Known {
		return Known{Tokens: status.Tokens{Limits: append(limit(3), limit(4)...), Pools: []status.Pool{{Name: "empty"}, {Name: "twitter", Tokens: []status.Token{
			{Label: "a", State: "cooling", Twins: []string{"b"}, Uses: 1, Refusals: 1, Limits: limit(1)},
			{Label: "b", State: "cooling", Twins: []string{"a"}, Limits: limit(1)},
			{Label: "c, d", State: "ready", Limits: limit(2)},
		}}}}}
	})
	expect(t, m, 2, "abide_token_state", "state", "cooling")
	expect(t, m, 1, "abide_token_remaining", "pool", "twitter", "token", "a", "route", "GET /x", "limit", "75 per 15m for GET /x")
	expect(t, m, 1+2+3, "abide_limit_remaining", "site", "api.test") // of equal limits the scarcest
}
