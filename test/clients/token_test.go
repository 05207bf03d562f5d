package clients

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNoTokenGoesToAnAddressThatAbideMayNotReach: the name is the rule's, and
// what it resolves to is this machine. Whoever listens on more than loopback does
// not connect there.
func TestNoTokenGoesToAnAddressThatAbideMayNotReach(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		env       []string
		connected bool
	}{
		{[]string{"ABIDE_LISTEN=0.0.0.0:0"}, false},
		{nil, true}, // the same is possible where only this machine can ask
	} {
		site, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer site.Close()
		connected := make(chan struct{}, 16)
		go func() {
			for {
				conn, err := site.Accept()
				if err != nil {
					return // it is closed
				}
				connected <- struct{}{}
				conn.Close()
			}
		}()
		host := strings.Replace(site.Addr().String(), "127.0.0.1", "localhost", 1)
		a := startAbide(t, setup{intercept: "auto", env: one.env, also: []string{"x.test:1"}, more: poolOf(host)}, startOrigin(t))
		answer := a.speak(t, host, "GET / HTTP/1.1\r\nHost: "+host+"\r\nAbide-Retry: none\r\n\r\n")
		if answer.status == http.StatusOK || (len(connected) > 0) != one.connected {
			t.Errorf("%q: %d connections\n%s%s", one.env, len(connected), answer.head, answer.body)
		}
	}
}

// keeper is an origin that knows who asks.
type keeper struct {
	dead  []string // tokens that are not accepted
	spent []string // and those that have nothing left
}

func (k keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credential := strings.Join(r.Header["Authorization"], ", ")
	token := strings.TrimPrefix(credential, "Bearer ")
	switch {
	case slices.Contains(k.dead, token):
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+credential+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	case slices.Contains(k.spent, token):
		w.Header().Set("X-RateLimit-Limit", "10")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(10*time.Minute).Unix(), 10))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// came is the Authorization of each request that reached the origin, and how often.
func came(o *origin) map[string]int {
	times := map[string]int{}
	for _, r := range o.requests() {
		times[fmt.Sprintf("%q", r.Header["Authorization"])]++
	}
	return times
}

// token is what the admin listener tells of one.
func (a *abide) token(t *testing.T, label string) (found struct {
	Label, State            string
	Uses, Refusals, Denials int
	Routes                  []struct{ State string }
},
) {
	t.Helper()
	var pool struct {
		Tokens []json.RawMessage `json:"tokens"`
	}
	if err := json.Unmarshal([]byte(a.get(t, "/api/v1/tokens/p")), &pool); err != nil {
		t.Fatal(err)
	}
	for _, text := range pool.Tokens {
		found.Routes = nil
		if err := json.Unmarshal(text, &found); err != nil {
			t.Fatal(err)
		}
		if found.Label == label {
			return found
		}
	}
	t.Fatalf("there is no token %s", label)
	return found
}

// TestADeadTokenIsAskedOnceAndNoClientSeesIt: what becomes of it in the course of
// days is in the tests of the packages tokens and proxy.
func TestADeadTokenIsAskedOnceAndNoClientSeesIt(t *testing.T) {
	t.Parallel()
	o := startOriginThat(t, keeper{dead: []string{"canary-1"}}.ServeHTTP)
	a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test")}, o)
	c := a.client(t)
	for n := range 20 {
		answer := a.fetch(t, c, fmt.Sprintf("https://api.test/%d", n))
		if answer.status != http.StatusOK || answer.header.Get("Abide-Token") != "two" {
			t.Errorf("%s", answer.head)
		}
	}
	if got := came(o); len(got) != 2 || got[`["Bearer canary-1"]`] != 1 || got[`["Bearer canary-2"]`] != 20 {
		t.Errorf("the origin was asked by %v", got)
	}
	if first := a.token(t, "one"); first.State != "quarantined" || first.Denials != 1 {
		t.Errorf("%+v", first)
	}
	if n := a.metric(t, "abide_token_state", `token="one"`, `state="quarantined"`); n != 1 {
		t.Error("no metric tells of the quarantine")
	}
	if n := a.metric(t, "abide_token_denials_total", `token="one"`); n != 1 {
		t.Errorf("it was not accepted %d times", n)
	}
}

func TestWhereAllTokensAreDeadTheClientGetsThe401WithoutThem(t *testing.T) {
	t.Parallel()
	o := startOriginThat(t, keeper{dead: []string{"canary-1", "canary-2"}}.ServeHTTP)
	a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test", "exhausted: refuse")}, o)
	c := a.client(t)
	answer := a.fetch(t, c, "https://api.test/")
	if answer.status != http.StatusUnauthorized || strings.Contains(answer.head, "canary") || answer.header.Get("WWW-Authenticate") != `Bearer realm="Bearer {token}"` {
		t.Errorf("%s", answer.head)
	}
	// where they are quarantined.
	for range 3 {
		answer = a.fetch(t, c, "https://api.test/")
		wait, _ := strconv.Atoi(answer.header.Get("Retry-After"))
		if answer.status != http.StatusServiceUnavailable || wait < 540 || wait > 600 || !strings.Contains(answer.body, "urn:abide:exhausted") {
			t.Errorf("%s%s", answer.head, answer.body)
		}
	}
	if got := came(o); len(got) != 2 || len(o.requests()) != 2 {
		t.Errorf("the origin was asked by %v", got)
	}
}

func TestWithoutATokenNothingGoesUnlessThePoolSaysSo(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		more, hint string
		status     int
		arrives    int
	}{
		{"exhausted: refuse", "urn:abide:exhausted", 503, 0},
		{"exhausted: wait", "urn:abide:wait", 429, 0}, // after its Abide-Max-Wait
		{"anonymous: true", "", 200, 1},
	} {
		o := startOrigin(t)
		a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test", one.more)}, o)
		for _, label := range []string{"one", "two"} {
			if s := a.operate(t, "POST", "/api/v1/tokens/p/"+label+"/disable"); s.status != 200 {
				t.Fatal(s.head, s.body)
			}
		}
		answer := a.speak(t, "api.test:443", "GET /a HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer dummy\r\nAbide-Max-Wait: 200ms\r\n\r\n")
		if answer.status != one.status || !strings.Contains(answer.body, one.hint) {
			t.Errorf("%s: %s%s", one.more, answer.head, answer.body)
		}
		if got := came(o); len(o.requests()) != one.arrives || got["[]"] != one.arrives {
			t.Errorf("%s: the origin was asked by %v", one.more, got)
		}
		if s := a.operate(t, "POST", "/api/v1/tokens/p/two/enable"); s.status != 200 {
			t.Fatal(s.head, s.body)
		}
		answer = a.fetch(t, a.client(t), "https://api.test/b")
		if answer.status != 200 || answer.header.Get("Abide-Token") != "two" {
			t.Errorf("%s, with a token again: %s%s", one.more, answer.head, answer.body)
		}
	}
}

// TestARequestThatIsAskedAgainHasTheOtherTokenAlone: that it is one in every
// place for a token is in the tests of the package tokens.
func TestARequestThatIsAskedAgainHasTheOtherTokenAlone(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		o := startOriginThat(t, keeper{spent: []string{"canary-1"}}.ServeHTTP)
		a := startAbide(t, setup{intercept: "auto", more: poolOf("api.test")}, o)
		for n := range 5 {
			answer := a.speak(t, "api.test:443", fmt.Sprintf("%s /%d HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer dummy\r\nauthorization: Basic eDp5\r\nContent-Length: 4\r\n\r\nbody", method, n))
			if answer.status != http.StatusOK || answer.header.Get("Abide-Token") != "two" {
				t.Errorf("%s: %s%s", method, answer.head, answer.body)
			}
		}
		if got := came(o); len(got) != 2 || got[`["Bearer canary-1"]`] != 1 || got[`["Bearer canary-2"]`] != 5 {
			t.Errorf("%s: the origin was asked by %v", method, got)
		}
		for _, r := range o.requests() {
			if r.Body != sum("body") {
				t.Errorf("%s %s: another body", r.Method, r.URI)
			}
		}
		first, two := a.token(t, "one"), a.token(t, "two")
		if first.Uses != 1 || first.Refusals != 1 || two.Uses != 5 || two.Refusals != 0 || len(two.Routes) != 0 || len(first.Routes) != 1 {
			t.Errorf("%s: %+v and %+v", method, first, two)
		}
	}
}

// TestWhatTheClientSendsInAnyPlaceForATokenIsReplaced: whatever some server may
// take for it, however it is written, and though it is named as this connection's.
func TestWhatTheClientSendsInAnyPlaceForATokenIsReplaced(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	a := startAbide(t, setup{intercept: "auto", also: []string{"head.test:443", "query.test:443", "basic.test:443"}, more: `
pools:
  head: {tokens: [{label: one, secret: canary}], put: "X-Key: {token}"}
  query: {tokens: [{label: one, secret: canary}], put: "query: api_key={token}"}
  basic: {tokens: [{label: one, secret: "id:canary"}], put: "basic: {token}"}
sites:
  - {host: head.test, pool: head}
  - {host: query.test, pool: query}
  - {host: basic.test, pool: basic}
`}, o)
	for host, lines := range map[string]string{
		"head.test":  "Connection: X-Key, close\r\nx-key: dummy\r\nX-KEY: dummy\r\nX_Key: dummy\r\n",
		"query.test": "",
		"basic.test": "Connection: authorization\r\nAuthorization: Bearer dummy\r\nauthorization: Basic ZHVtbXk6ZHVtbXk=\r\n",
	} {
		uri := "/"
		if host == "query.test" {
			uri = "/?a=%zz&api_key=dummy&b&API_KEY=dummy&api%5Fkey=dummy&api_key"
		}
		answer := a.speak(t, host+":443", "GET "+uri+" HTTP/1.1\r\nHost: "+host+"\r\n"+lines+"\r\n")
		if answer.status != http.StatusOK {
			t.Errorf("%s: %s%s", host, answer.head, answer.body)
		}
	}
	for _, r := range o.requests() {
		text := fmt.Sprint(r.URI, r.Header)
		want := map[string]string{"head.test": "X-Key:[canary]", "query.test": "/?a=%zz&api_key=canary&b", "basic.test": "Authorization:[Basic aWQ6Y2FuYXJ5]"}[r.Host]
		if strings.Contains(text, "dummy") || strings.Contains(text, "ZHVtbXk") || !strings.Contains(text, want) {
			t.Errorf("%s was asked with %s", r.Host, text)
		}
	}
	if n := len(o.requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}
