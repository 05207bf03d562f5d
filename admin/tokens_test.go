package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// keeper is who keeps tokens, for tests.
type keeper struct {
	mu  sync.Mutex
	all status.Tokens
	did []string
}

func (k *keeper) tokens() status.Tokens {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := status.Tokens{Limits: k.all.Limits}
	for _, p := range k.all.Pools {
		p.Tokens = append([]status.Token{}, p.Tokens...)
		t.Pools = append(t.Pools, p)
	}
	return t
}

// set has a token be in a state.
func (k *keeper) set(state string) func(pool, label string) error {
	return func(pool, label string) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, p := range k.all.Pools {
			for i, one := range p.Tokens {
				if p.Name == pool && one.Label == label {
					p.Tokens[i].State, p.Tokens[i].Until, p.Tokens[i].Why = state, time.Time{}, ""
					k.did = append(k.did, state+" "+pool+" "+label)
					return nil
				}
			}
		}
		return errors.New("no such token")
	}
}

func (k *keeper) done() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.did)
}

func (k *keeper) into(_ *policy.Policy, o *given) {
	o.Tokens, o.Disable, o.Enable = k.tokens, k.set("disabled"), k.set("ready")
}

// pools has tokens in every state, and a limit without a token.
func pools(now time.Time) *keeper {
	tweets := func(left int64, reset time.Time) []status.Announced {
		return []status.Announced{
			{Site: "api.test", Route: "GET /2/tweets/*", Title: "75 per 15m for GET /2/tweets/*", Limit: 75, Remaining: left, Reset: reset, Window: 900, State: "open", Foreign: 0.25},
			{Site: "api.test", Route: "GET /1", Limit: -1, Remaining: -1, State: "learning"},
		}
	}
	return &keeper{all: status.Tokens{
		Pools: []status.Pool{
			{Name: "twitter", Ready: 1, Tokens: []status.Token{
				{Label: "news/ü 1", State: "ready", Fingerprint: "aabbccdd", Twins: []string{"twin"}, Uses: 1234, Refusals: 1, Accepted: now, Limits: tweets(12, now.Add(9*time.Minute+15*time.Second))},
				{Label: "cool", State: "cooling", Until: now.Add(3*time.Minute + 12*time.Second), Why: "Retry-After", Fingerprint: "11223344", Throttled: now, Limits: tweets(0, now.Add(3*time.Minute))},
				{Label: "dead", State: "quarantined", Until: now.Add(10 * time.Minute), Why: "401", Denials: 3},
				{Label: "off", State: "disabled", Routes: []status.Paused{{Route: "GET /x", State: "spent", Until: now.Add(time.Hour)}}},
			}},
			{Name: "empty"},
		},
		Limits: []status.Announced{{Site: "open.test", Title: "60 per 1m", Limit: 60, Remaining: 59, Reset: now.Add(time.Minute), Foreign: math.NaN()}},
	}}
}

func TestTokensAreListedWithWhatTheyHaveLeft(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	b := newBed(t, pools(now).into)
	r := b.get("/api/v1/tokens")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	for _, want := range []string{
		`{"pools":[{"pool":"empty","ready":0,"count":0,"tokens":[]},{"pool":"twitter","ready":1,"count":4,"tokens":[{"label":"cool","state":"cooling","until":"2026-03-01T11:03:12Z","why":"Retry-After","fingerprint":"11223344"`,
		`{"label":"news/ü 1","state":"ready","fingerprint":"aabbccdd","twins":["twin"],"uses":1234,"refusals":1,"denials":0,"last_accepted":"2026-03-01T11:00:00Z","limits":[{"site":"api.test","route":"GET /1","limit":-1,"remaining":-1,"state":"learning","foreign":0},` +
			`{"site":"api.test","route":"GET /2/tweets/*","title":"75 per 15m for GET /2/tweets/*","limit":75,"remaining":12,"reset":"2026-03-01T11:09:15Z","window_seconds":900,"state":"open","foreign":0.25}]}`,
		`"routes":[{"route":"GET /x","state":"spent","until":"2026-03-01T12:00:00Z"}],"limits":[]}`,
		`"limits":[{"site":"open.test","title":"60 per 1m","limit":60,"remaining":59,"reset":"2026-03-01T11:01:00Z","foreign":0}]}` + "\n",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("%s is not in\n%s", want, r.body)
		}
	}
	response := b.get("/api/v1/tokens/twitter")
	var pool status.Pool
	if err := json.Unmarshal([]byte(response.body), &pool); err != nil || pool.Name != "twitter" || pool.Count != 4 || len(pool.Tokens) != 4 || !strings.Contains(r.body, strings.TrimSpace(response.body)) {
		t.Errorf("%v %s", err, response.body)
	}
	if r := b.get("/api/v1/tokens/none"); r.StatusCode != 404 || r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(r.body, `there is no pool \"none\"; there are: \"twitter\", \"empty\"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestWithoutPoolsThereIsNothingToShow(t *testing.T) {
	none := newBed(t, (&keeper{}).into)
	if r := none.get("/api/v1/tokens"); r.body != `{"pools":[],"limits":[]}`+"\n" {
		t.Error(r.body)
	}
	if r := none.ask("POST", "/api/v1/tokens/x/y/disable", ""); r.StatusCode != 404 || !strings.Contains(r.body, "nor any other") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := none.get("/"); strings.Contains(r.body, "h-tokens") || strings.Contains(r.body, "<form method") {
		t.Errorf("the page:\n%s", r.body)
	}
}

func TestManyTokensAreListedUpToABound(t *testing.T) {
	k := &keeper{all: status.Tokens{Pools: []status.Pool{{Name: "big"}}}}
	for i := range status.MaxTokens + 5 {
		k.all.Pools[0].Tokens = append(k.all.Pools[0].Tokens, status.Token{Label: fmt.Sprintf("t%06d", i), State: "ready"})
	}
	for i := range status.MaxAnnounced + 7 {
		k.all.Limits = append(k.all.Limits, status.Announced{Site: fmt.Sprintf("s%06d", i), Limit: 1})
	}
	b := newBed(t, k.into)
	var got status.Tokens
	if err := json.Unmarshal([]byte(b.get("/api/v1/tokens").body), &got); err != nil {
		t.Fatal(err)
	}
	if p := got.Pools[0]; p.Count != status.MaxTokens+5 || len(p.Tokens) != status.MaxTokens || len(got.Limits) != status.MaxAnnounced {
		t.Errorf("%d tokens of %d, %d limits", len(p.Tokens), p.Count, len(got.Limits))
	}
	page := b.get("/").body
	for want, n := range map[string]int{
		`value="disable"`: status.MaxListed, "100 of 10\u202f005 are listed, those that cannot go first.": 1,
		">s000099 ": 1, ">s000100 ": 0, "900 more, of which more is left, are not listed.": 1,
	} {
		if got := strings.Count(page, want); got != n {
			t.Errorf("%q is there %d times, not %d", want, got, n)
		}
	}
	// What is not listed can still be changed.
	if r := b.ask("POST", fmt.Sprintf("/api/v1/tokens/big/t%06d/disable", status.MaxTokens+4), ""); r.StatusCode != 200 || !strings.Contains(r.body, `"state":"disabled"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	r := b.ask("POST", "/api/v1/tokens/big/"+strings.Repeat("x", 5000)+"/disable", "")
	if r.StatusCode != 404 || len(r.body) > 1000 || !strings.Contains(r.body, "and 9985 others") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestATokenIsDisabledAndEnabledByItsLabel(t *testing.T) {
	k := pools(time.Now())
	for _, label := range []string{"a/b", "..", ".", "%2F", "a b?c#d", "日本", "disable", `<"'&>`, "a;b"} {
		k.all.Pools[1].Tokens = append(k.all.Pools[1].Tokens, status.Token{Label: label, State: "ready"})
	}
	b := newBed(t, k.into)
	for i := range k.all.Pools[1].Tokens {
		label := k.all.Pools[1].Tokens[i].Label
		path := "/api/v1/tokens/empty/" + url.PathEscape(label)
		if strings.Trim(label, ".") == "" {
			path = "/api/v1/tokens/empty/" + strings.ReplaceAll(label, ".", "%2E")
		}
		for verb, state := range map[string]string{"disable": "disabled", "enable": "ready"} {
			r := b.ask("POST", path+"/"+verb, "")
			var got status.Token
			if err := json.Unmarshal([]byte(r.body), &got); r.StatusCode != 200 || err != nil || got.Label != label || got.State != state {
				t.Errorf("%s %s: %d %s", verb, path, r.StatusCode, r.body)
			}
		}
	}
	before := k.done()
	for path, want := range map[string]int{
		"/api/v1/tokens/twitter/none/disable":   404,
		"/api/v1/tokens/twitter/COOL/disable":   404,
		"/api/v1/tokens/none/cool/disable":      404,
		"/api/v1/tokens/twitter/cool/destroy":   404,
		"/api/v1/tokens/twitter/cool":           404,
		"/api/v1/tokens/twitter/a/b/disable":    404,
		"/api/v1/tokens/twitter/cool%ff/enable": 404,
	} {
		if r := b.ask("POST", path, ""); r.StatusCode != want {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	r := b.ask("POST", "/api/v1/tokens/twitter/none/disable", "")
	if r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(r.body, `the pool \"twitter\" has no token \"none\"; there are: \"news/ü 1\", \"cool\", \"dead\", \"off\"`) {
		t.Error(r.body)
	}
	if r := b.get("/api/v1/tokens/twitter/cool/disable"); r.StatusCode != 405 {
		t.Errorf("GET: %d", r.StatusCode)
	}
	for body, want := range map[string]int{`{"why":"x"}`: 400, `[]`: 400, strings.Repeat("x", maxBody+1): 413} {
		if r := b.ask("POST", "/api/v1/tokens/twitter/cool/disable", body, "Content-Type: application/json"); r.StatusCode != want {
			t.Errorf("%.20s: %d", body, r.StatusCode)
		}
	}
	if r := b.ask("POST", "/api/v1/tokens/twitter/cool/disable", "do=disable", "Content-Type: application/x-www-form-urlencoded"); r.StatusCode != 415 {
		t.Errorf("a form: %d", r.StatusCode)
	}
	if k.done() != before {
		t.Errorf("it did %s", k.done())
	}
}

// form are the fields of the page's buttons.
func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func TestTheButtonsOfThePageDisableAndEnable(t *testing.T) {
	k := pools(time.Now())
	b := newBed(t, k.into)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	const kind = "Content-Type: application/x-www-form-urlencoded"
	for _, what := range []string{"disable", "enable"} {
		r := b.ask("POST", "/tokens", form("pool", "twitter", "label", "news/ü 1", "do", what), kind, "Origin: http://"+b.address)
		if r.StatusCode != 303 || r.Header.Get("Location") != "/#tokens" {
			t.Errorf("%s: %d %q %s", what, r.StatusCode, r.Header, r.body)
		}
	}
	if r := b.ask("POST", "/tokens", form("pool", "twitter", "label", "cool", "label", "news/ü 1", "do", "enable"), kind, "Origin: http://"+b.address); r.StatusCode != 303 {
		t.Errorf("several: %d %s", r.StatusCode, r.body)
	}
	if want := "[disabled twitter news/ü 1 ready twitter news/ü 1 ready twitter cool ready twitter news/ü 1]"; k.done() != want {
		t.Errorf("it did %s", k.done())
	}
	right := form("pool", "twitter", "label", "cool", "do", "disable")
	for body, want := range map[string]int{
		"": 400, form("do", "destroy", "pool", "twitter", "label", "cool"): 400, form("do", "disable", "label", "cool"): 404,
		form("do", "disable", "pool", "twitter", "label", "none"): 404, "%zz": 400, right + "&x=" + strings.Repeat("x", maxForm): 400,
	} {
		if r := b.ask("POST", "/tokens", body, kind); r.StatusCode != want {
			t.Errorf("%.40q: %d %s", body, r.StatusCode, r.body)
		}
	}
	for _, headers := range [][]string{
		{"Origin: null"}, {"Origin: https://evil.example"}, {"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site", "Origin: http://" + b.address}, {"Host: evil.example"},
	} {
		for path, body := range map[string]string{"/tokens": right, "/api/v1/tokens/twitter/cool/disable": "", "/api/v1/tokens/twitter/cool/enable": ""} {
			if r := b.ask("POST", path, body, append(headers, kind)...); r.StatusCode != 403 {
				t.Errorf("%s with %q: %d", path, headers, r.StatusCode)
			}
		}
	}
	if r := b.ask("POST", "/tokens?"+right, "", kind); r.StatusCode != 400 {
		t.Errorf("in the query: %d", r.StatusCode)
	}
	if r := b.get("/tokens?" + right); r.StatusCode != 405 {
		t.Errorf("GET: %d", r.StatusCode)
	}
	if k.done() != "[disabled twitter news/ü 1 ready twitter news/ü 1 ready twitter cool ready twitter news/ü 1]" {
		t.Errorf("it did %s", k.done())
	}
}

func TestLabelsOfTokensAreShownAndNeverRun(t *testing.T) {
	k := &keeper{all: status.Tokens{Pools: []status.Pool{{Name: hostile[2]}}}}
	for _, one := range hostile {
		k.all.Pools[0].Tokens = append(k.all.Pools[0].Tokens, status.Token{
			Label: one, State: one, Why: one, Twins: []string{one}, Fingerprint: one, Routes: []status.Paused{{Route: one, State: one, Why: one}},
			Limits: []status.Announced{{Site: one, Route: one, Title: one, State: one, Limit: -1, Remaining: -1}},
		})
		k.all.Limits = append(k.all.Limits, status.Announced{Site: one, Route: one, State: one, Limit: -1, Remaining: -1})
	}
	b := newBed(t, k.into)
	page := b.get("/")
	found := tags(t, page.body)
	nothingRuns(t, found)
	if found["tr"] != 3+2*len(hostile) || found["form"] != 1+len(hostile) || found["button"] != 1+len(hostile) {
		t.Errorf("%d rows, %d forms", found["tr"], found["form"])
	}
	for _, r := range []response{b.get("/api/v1/tokens"), b.ask("POST", "/api/v1/tokens/x/"+url.PathEscape(hostile[0])+"/disable", "")} {
		if !json.Valid([]byte(r.body)) || strings.Contains(r.body, "<") {
			t.Errorf("%d %s", r.StatusCode, r.body)
		}
	}
}

func TestThePageShowsTokens(t *testing.T) {
	r := newBed(t, pools(time.Now().Add(time.Second/2)).into).get("/")
	for _, want := range []string{
		`<summary><b>twitter</b> 1 of 4 tokens can go now <span`, `<summary><b>empty</b> 0 of 0 tokens can go now <span`,
		`<th scope="row">news/ü 1 <small>shares its account with twin</small></th>`, `<span class="t-word ready">ready</span></span></td>`,
		`12 of 75 left, <span class="whole">resets in 9 min `, `>Left of 75 per 15m for GET /2/tweets/*; GET /1</th>`, `<small>others use 25 %</small>`, `<span>learning</span></div>`,
		`<span class="t-word cooling">cooling</span>, ends in 3 min `, `<small>Retry-After</small>`, "<td>1\u202f234</td><td>1</td><td>0</td>",
		`<small>GET /x: spent, ends in `, `<th scope="row">open.test <small>60 per 1m</small></th>`, ` 59 of 60 left</td>`, "nothing learned yet",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	found := tags(t, r.body)
	if found["form"] != 7 || strings.Count(r.body, `value="enable"`) != 3 || strings.Count(r.body, `value="disable"`) != 3 {
		t.Errorf("%d buttons", found["form"])
	}
	if t.Failed() {
		io.WriteString(t.Output(), r.body)
	}
}
