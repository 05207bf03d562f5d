package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// explained is what "abide explain" prints and ends with, with this
// configuration.
func explained(t *testing.T, config string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // so that no abide of this machine's user is registered
	t.Setenv("XDG_STATE_HOME", "")
	file := filepath.Join(t.TempDir(), "abide.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), append([]string{"explain", "--config", file}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// console is an admin listener that somebody else wrote.
func console(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

const liveAnswer = `{"target":"https://api.test:443","site":"api.test","intercepted":true,"held":3,"in_flight":2,"place":4,` +
	`"limit":"2 in flight","limits":[{"limit":"2 in flight","left":0}],"blocked_by":"all is in use\u001b[2J","would_change":["raise it"]}` + "\n"

func TestExplainAsksTheProxyThatRuns(t *testing.T) {
	var asked *http.Request
	address := console(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w, liveAnswer)
	})
	config := "admin: {listen: " + address + ", token: sesame-open}\nsites: [{host: api.test, limits: [{concurrency: 2}]}]\n"
	code, out, errs := explained(t, config, "--method", "POST", "--client", "news", "https://user:canary@API.test/a%2Fb?key=canary#canary")
	if code != 0 || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	for _, want := range []string{"site            api.test\n", "\n\nCONNECT         intercepted: its requests are seen\nnow             3 requests wait, 2 in flight\n", "blocked by      all is in use [2J\n", "place           4\n", "would change    raise it\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if asked.Header.Get("Authorization") != "Bearer sesame-open" || asked.URL.Path != "/api/v1/explain" ||
		asked.URL.Query().Encode() != "client=news&method=POST&url=https%3A%2F%2Fapi.test%3A443%2Fa%252Fb" {
		t.Errorf("it asked %s with %q", asked.URL, asked.Header)
	}
	if strings.Contains(out+errs, "canary") || strings.Contains(out+errs, "sesame") {
		t.Errorf("a secret is in\n%s%s", out, errs)
	}

	code, out, errs = explained(t, config, "--json", "api.test")
	if code != 0 || out != liveAnswer || errs != "" {
		t.Errorf("--json: %d\n%s%s", code, out, errs)
	}
}

func TestExplainSaysWhenTheProxyHasAnotherConfiguration(t *testing.T) {
	address := console(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.Replace(liveAnswer, `"site":"api.test"`, `"site":"test"`, 1))
	})
	code, out, errs := explained(t, "admin: "+address+"\n", "api.test")
	if code != 0 || !strings.Contains(out, "3 requests wait") || !strings.Contains(errs, "another configuration: there the site is test") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
}

func TestExplainIsAboutTheConfigurationAloneWithoutAProxy(t *testing.T) {
	closed := httptest.NewServer(nil)
	gone := strings.TrimPrefix(closed.URL, "http://")
	closed.Close()
	answers := map[string]string{
		gone: "no proxy is running at " + gone,
		console(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }): "is no abide that knows /api/v1/explain",
		console(t, http.NotFound): "is no abide that knows /api/v1/explain",
		console(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}): "is no abide that knows /api/v1/explain",
		console(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"detail":"admin.token\u001b is needed"}`)
		}): "401 Unauthorized: admin.token  is needed",
		console(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}): "is no abide that knows /api/v1/explain",
		"\"\"": "admin.listen is off",
	}
	for address, want := range answers {
		code, out, errs := explained(t, "admin: "+address+"\n", "api.test")
		if code != 0 || !strings.Contains(out, "api.test") || !strings.Contains(errs, want) || !strings.HasSuffix(errs, ", so this is the configuration alone\n") {
			t.Errorf("%s: %d\n%s\n%q, want %q", address, code, out, errs, want)
		}
		code, out, errs = explained(t, "admin: "+address+"\n", "--json", "api.test")
		if code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s, --json: %d %q %q", address, code, out, errs)
		}
	}
}

func TestExplainDoesNotWaitForAProxyThatHangs(t *testing.T) {
	address := console(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := abideAt{registration: registration{Admin: address}}.ask(ctx, http.MethodGet, "explain", nil, new(any))
	if err == nil || err.Error() != "the proxy at "+address+" does not answer in time" {
		t.Error(err)
	}
}
