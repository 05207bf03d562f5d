package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// printedStatus is what "abide status" prints and ends with, with this
// configuration.
func printedStatus(t *testing.T, config string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // so that no abide of this machine's user is registered
	t.Setenv("XDG_STATE_HOME", "")
	file := filepath.Join(t.TempDir(), "abide.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), append([]string{"status", "--config", file}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// watched is an admin listener that has something to tell.
func watched(t *testing.T, tokens func() status.Tokens) (config string) {
	t.Helper()
	p := policy.Defaults()
	p.Admin.Token = policy.NewSecret("sesame-open-canary")
	api := admin.New(admin.Options{
		History: history.New(history.Options{}),
		Policy:  func() *policy.Policy { return p }, Metrics: metrics.New(10), Version: "v1.2.3", Listen: "127.0.0.1:3128", Started: time.Now(), Log: logrus.New(),
		Proxy: someProxy{tokens: tokens}, Process: someProcess{tokens: tokens},
	})
	address := console(t, func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; tokens == nil && (path == "/api/v1/tokens" || path == "/api/v1/forecast") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotImplemented) // as an older abide does
			_, _ = w.Write([]byte(`{"detail":"there are none"}`))
			return
		}
		api.ServeHTTP(w, r)
	})
	return "admin: {listen: " + address + ", token: sesame-open-canary}\n"
}

// someProxy has tokens and a request that waits.
type someProxy struct {
	admin.Proxy
	tokens func() status.Tokens
}

func (someProxy) Breakers() []status.Breaker                   { return nil }
func (someProxy) Cooldowns(time.Duration) []status.Cooldown    { return nil }
func (someProxy) Pauses() map[string]status.Pause              { return nil }
func (someProxy) WrittenLimits() []status.Limit                { return nil }
func (p someProxy) Tokens() status.Tokens                      { return p.tokens() }
func (someProxy) Forecast(s string, n int64) []status.Forecast { return somePlans(s, n) }
func (someProxy) Holds(string, int) []status.Hold {
	return []status.Hold{{Site: "api.test", Limit: "2 in flight"}}
}

// someProcess has a store where there are tokens.
type someProcess struct {
	admin.Process
	tokens func() status.Tokens
}

func (someProcess) Ready() []status.Check                  { return nil }
func (someProcess) Jobs(context.Context) []status.Job      { return nil }
func (someProcess) Refused() *status.RefusedReload         { return nil }
func (someProcess) Advice(now time.Time) status.AdviceList { return status.AdviceList{Until: now} }
func (p someProcess) Store(ctx context.Context) (s status.Store) {
	if p.tokens != nil {
		s = someStore(ctx)
	}
	return s
}

// somePlans are a quota of which 62 % is used, and another until tomorrow.
func somePlans(string, int64) []status.Forecast {
	now := time.Now()
	return []status.Forecast{{
		Site: "api.test", Limit: "10000 requests per month", Amount: 10_000, Used: 6200, Left: 3800,
		Opens: now.Add(-20 * 24 * time.Hour), Ends: now.Add(10 * 24 * time.Hour), Rate: 1, RunsOut: now.Add(63 * time.Minute),
	}}
}

// someStore is one that two instances share.
func someStore(context.Context) status.Store {
	return status.Store{Kind: "shared", Instance: "1", Operations: 7, Members: []status.Member{{ID: "1", Name: "host-a:12"}, {ID: "2", Name: "host-b:<17>\x1b"}}}
}

func TestStatusPrintsWhatTheRunningProxyTells(t *testing.T) {
	config := watched(t, func() status.Tokens {
		return status.Tokens{Pools: []status.Pool{{Name: "twitter", Ready: 1, Tokens: []status.Token{{
			Label: "<news>", State: "cooling", Until: time.Now().Add(time.Hour), Uses: 7,
			Limits: []status.Announced{{Site: "api.test", Route: "GET /x", Limit: 75, Remaining: 12, Reset: time.Now().Add(10 * time.Minute)}},
		}}}}}
	})
	code, out, errs := printedStatus(t, config)
	for _, want := range []string{
		"abide v1.2.3 at 127.0.0.1:3128: ready, up ", "\npool twitter: 1 of 1 token can go now\n\nTOKEN   STATE ", "\n<news>  cooling for ", "GET /x  12 of 75  in ", "\n1 request waits\n", "2 in flight",
		"\nbudgets are shared by 2 instances; 7 operations, 0 failed\n", "\nhost-a:12     -     this one\nhost-b:<17>   -\n", "\nquotas\n\nSITE ", " 62 %  at this rate until ",
	} {
		if code != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("%d, %q is not in\n%s%s", code, want, out, errs)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("it has colours, and nobody sees them: %q", out)
	}

	code, out, errs = printedStatus(t, config, "--json")
	var got struct {
		Status   status.Process
		Tokens   status.Tokens
		Forecast []status.Forecast
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || errs != "" || err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("--json: %d %v\n%s%s", code, err, out, errs)
	}
	if got.Status.Version != "v1.2.3" || got.Status.Waiting.N != 1 || got.Tokens.Pools[0].Tokens[0].Label != "<news>" || got.Tokens.Pools[0].Tokens[0].Limits[0].Remaining != 12 ||
		got.Forecast[0].Left != 3800 || got.Status.Store.Members[1].Name != "host-b:<17> " {
		t.Errorf("--json: %s", out)
	}
	if strings.Contains(out, "canary") {
		t.Errorf("a secret is in %s", out)
	}
}

func TestStatusOfAProxyWithoutTokens(t *testing.T) {
	config := watched(t, nil)
	code, out, errs := printedStatus(t, config)
	if code != 0 || errs != "" || strings.Contains(out, "pool") || !strings.Contains(out, "1 request waits") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if code, out, _ := printedStatus(t, config, "--json"); code != 0 || !strings.HasSuffix(out, `,"tokens":null,"forecast":null}`+"\n") {
		t.Errorf("--json: %d %s", code, out)
	}
}

func TestStatusSaysThatNoProxyRuns(t *testing.T) {
	closed := httptest.NewServer(nil)
	gone := strings.TrimPrefix(closed.URL, "http://")
	closed.Close()
	as := func(kind string, status int, body string) string {
		return console(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	wants := map[string]string{
		gone: "no proxy is running at " + gone,
		as("application/problem+json", 401, `{"detail":"admin.token\u001b is needed"}`): "401 Unauthorized: admin.token  is needed",
		`""`:                          "admin.listen is off",
		as("text/html", 200, "hello"): "is no abide that knows /api/v1/",
	}
	for _, body := range []string{
		"{}", "[]", "{", `{"uptime_seconds":"x"}`, `{"uptime_seconds":1,"waiting":[]}`, `{"uptime_seconds":1,"pools":"these are none"}`,
	} {
		wants[as("application/json", 200, body)] = "is no abide that knows /api/v1/"
	}
	for address, want := range wants {
		for _, args := range [][]string{nil, {"--json"}} {
			code, out, errs := printedStatus(t, "admin: "+address+"\n", args...)
			if args != nil && code == 0 && json.Valid([]byte(out)) {
				continue // it came as it is
			}
			if code != exitFailed || out != "" || !strings.HasPrefix(errs, "abide: ") || !strings.Contains(errs, want) || strings.Contains(errs, "\x1b") {
				t.Errorf("%s %s: %d %q %q, want %q", address, args, code, out, errs, want)
			}
		}
	}
}

func TestStatusDoesNotWaitForAProxyThatHangs(t *testing.T) {
	address := console(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := askStatus(ctx, abideAt{registration: registration{Admin: address}}); err == nil || err.Error() != "the proxy at "+address+" does not answer in time" {
		t.Error(err)
	}
}
