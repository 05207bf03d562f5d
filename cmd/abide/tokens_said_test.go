//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// keys is the site http://api.test/, which knows clients by their tokens: carol has no credit, and
// each other token may send two requests to a path, and 500 to /search.
type keys struct {
	url  string
	mu   sync.Mutex
	owes bool           // carol does
	bill string         // what the site says then
	sent map[string]int // :: token and path → requests
	seen []string       // tokens, in order
}

func newKeys(t *testing.T, amount int) *keys {
	k := &keys{owes: true, bill: `{"error": {"code": "insufficient_quota"}}`, sent: map[string]int{}}
	reset := time.Now().Add(10 * time.Minute).Unix()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		k.seen = append(k.seen, token)
		if token == "canary-carol" && k.owes {
			http.Error(w, k.bill, http.StatusPaymentRequired)
			return
		}
		k.sent[token+r.URL.Path]++
		amount := amount
		if r.URL.Path == "/search" {
			amount = 500
		}
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(amount))
		left := amount - k.sent[token+r.URL.Path]
		if amount < 500 && left < amount-1 {
			left = 0 // others of the account have used it up
		}
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(reset))
	}))
	t.Cleanup(s.Close)
	k.url = s.URL
	return k
}

// pool serves a configuration with a pool of tokens for the site.
func (k *keys) pool(t *testing.T, dir string, labels ...string) *daemon {
	t.Helper()
	return serveIn(t, dir, k.configure(t, dir, labels...))
}

// configure writes that configuration, and returns the variables to go with it.
func (k *keys) configure(t *testing.T, dir string, labels ...string) (env []string) {
	t.Helper()
	list := ""
	for _, label := range labels {
		list += fmt.Sprintf("{label: %s, secret: canary-%s}, ", label, label)
	}
	write(t, filepath.Join(dir, "abide.yaml"), "pools: {api: {tokens: ["+list+"], put: 'Authorization: Bearer {token}'}}\nsites: [{host: api.test, pool: api, insecure: true}]\n")
	return []string{"ABIDE_EGRESS_RESOLVE=api.test:80=" + strings.TrimPrefix(k.url, "http://")}
}

func TestExplainDoesNotCountOnATokenWithoutCredit(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 2)
	d := k.pool(t, t.TempDir(), "alice", "bob", "carol")
	for range 4 {
		if code, body := d.get("http://api.test/a"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	_, out, _ := d.command("explain", "http://api.test/a")
	for _, want := range []string{"blocked by      \"2 requests of ", "not used        ", " (quarantine)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "its window is not known") || strings.Contains(out, "carol\" would keep it as well") || strings.Contains(out, "canary") {
		t.Errorf("it says\n%s", out)
	}
}

// TestTheStateFileNamesDeniedTokensAndLimits: where no proxy runs, report and advise know what the next one would, and
// name the file that they read. A token whose secret is not there any more is not known, which says so.
func TestTheStateFileNamesDeniedTokensAndLimits(t *testing.T) {
	t.Parallel()
	k, dir := newKeys(t, 2), t.TempDir()
	d := k.pool(t, dir, "alice", "carol")
	for range 2 {
		if code, body := d.get("http://api.test/a"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	d.signal(syscall.SIGTERM)
	d.status()
	from := "no proxy is running: from the state file "
	d.says(0, []string{"report"}, from, "\ndenied\n\ncarol of api (402: no credit by api.test, until ")
	d.says(0, []string{"report", "--json"}, `"denied":[{"pool":"api","label":"carol"`)
	d.says(0, []string{"advise"}, from, "The token carol of the pool api is not accepted (402: no credit", "An accepted token in its place would give 100 % more.", "!canary")
	write(t, filepath.Join(dir, "abide.yaml"), "pools: {api: {env: GONE}}\n")
	d.says(0, []string{"report"}, from, "api.test ", "the state of tokens is not known: ", "!denied")
	write(t, filepath.Join(dir, "abide.yaml"), "pools: 1\n")
	d.says(0, []string{"report"}, from, "api.test ")
}

func TestHowManyTokensCanGoIsSaidOfARoute(t *testing.T) {
	t.Parallel()
	k := newKeys(t, 9)
	d := k.pool(t, t.TempDir(), "alice")
	for _, path := range []string{"users", "search", "users"} {
		if code, body := d.get("http://api.test/" + path); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	_, out, _ := d.command("status")
	if want := "pool api: 0 of 1 token can go now for GET /users, the next in "; !strings.Contains(out, want) {
		t.Errorf("%q is not in\n%s", want, out)
	}
	if code, body := d.get("http://api.test/search"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
}

// A credit that was topped up between two runs is used at once: the quarantine of the only token ends with the
// first request of the second run, which tries it, and the others wait for its answer.
func TestTheOnlyTokenIsTriedAtAStart(t *testing.T) {
	t.Parallel()
	k, dir := newKeys(t, 500), t.TempDir()
	k.bill = "pay"
	for run, owes := range []bool{true, true, false} {
		k.mu.Lock()
		k.owes, k.seen = owes, nil
		k.mu.Unlock()
		d := k.pool(t, dir, "carol")
		if owes {
			if code, body := d.get("http://api.test/a"); code != 402 {
				t.Fatalf("run %d: %d %s", run, code, body)
			}
			if _, out, _ := d.command("status"); !strings.Contains(out, "denied for ") {
				t.Fatalf("run %d: the token is not put away:\n%s", run, out)
			}
		} else {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if code, body := d.get("http://api.test/a"); code != 200 {
						t.Errorf("%d %s", code, body)
					}
				})
			}
			all.Wait()
		}
		k.mu.Lock()
		if want := map[bool]int{true: 1, false: 4}[owes]; len(k.seen) != want {
			t.Errorf("run %d: the site has seen %q, want %d requests", run, k.seen, want)
		}
		k.mu.Unlock()
		d.signal(syscall.SIGTERM)
		d.status()
	}
}

// Two names that a rule makes one site have one count for a route, whichever name is asked.
func TestNamesThatARuleJoinsShareTheLimitsOfTheirRoutes(t *testing.T) {
	t.Parallel()
	k, dir := newKeys(t, 2), t.TempDir()
	k.owes = false
	address := strings.TrimPrefix(k.url, "http://")
	write(t, filepath.Join(dir, "abide.yaml"), `
pools: {api: {tokens: [{label: alice, secret: canary-alice}], put: 'Authorization: Bearer {token}'}}
sites: [{host: [api.test, old.test], group: rule, pool: api, insecure: true}]
egress: {resolve: {"api.test:80": "`+address+`", "old.test:80": "`+address+`"}}
`)
	d := serveIn(t, dir, nil)
	for range 2 {
		if code, body := d.get("http://old.test/items/5"); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	_, out, _ := d.command("explain", "http://api.test/items/5")
	if !strings.Contains(out, `blocked by      "2 requests`) {
		t.Errorf("it says\n%s", out)
	}
	if _, out, _ := d.command("status"); strings.Contains(out, "old.test/") || strings.Count(out, "GET /items/*") != 1 {
		t.Errorf("status says\n%s", out)
	}
}
