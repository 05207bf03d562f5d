package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// abideLearn runs the command.
func abideLearn(t *testing.T, input string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), append([]string{"learn"}, args...), strings.NewReader(input), &o, &e)
	return o.String(), e.String(), code
}

func TestLearnSaysInWordsWhatAResponseTeaches(t *testing.T) {
	response := "HTTP/1.1 429 Too Many Requests\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nRetry-After: 30\r\n" +
		"x-ratelimit-limit: 60\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1700001800\r\nx-ratelimit-resource: core\r\n\r\n{}"
	for name, text := range map[string]string{"crlf": response, "lf": strings.ReplaceAll(response, "\r\n", "\n")} {
		out, errs, code := abideLearn(t, text, "--host", "api.github.com")
		if code != 0 || errs != "" {
			t.Fatalf("%s: %d %s", name, code, errs)
		}
		for _, must := range []string{
			"429, a refusal", `what the server calls "core"`, "limit:         60", "remaining:     0",
			"2023-11-14 22:43:20 UTC, in 30m0s", "2023-11-14 22:13:50 UTC, in 30s",
		} {
			if !strings.Contains(out, must) {
				t.Errorf("%s: no %q in\n%s", name, must, out)
			}
		}
	}
}

func TestLearnSaysWhenThereIsNothingToLearn(t *testing.T) {
	out, _, code := abideLearn(t, "HTTP/2 200\ncontent-type: text/html\n\nhello")
	if code != 0 || !strings.Contains(out, "nothing about limits") {
		t.Errorf("%d %s", code, out)
	}
}

func TestLearnSaysWhatWaitingDoesNotHelpAgainst(t *testing.T) {
	for body, must := range map[string]string{
		`{"error":{"code":"insufficient_quota"}}`: "waiting does not help",
		`{"error":{"code":"lock_timeout"}}`:       "holds a lock",
		`{}`:                                      "abide backs off",
	} {
		out, _, code := abideLearn(t, "HTTP/1.1 429 Too Many\n\n"+body)
		if code != 0 || !strings.Contains(out, must) {
			t.Errorf("%s: %d %s", body, code, out)
		}
	}
}

func TestLearnReadsTheLastOfSeveralResponses(t *testing.T) {
	text := "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" +
		"HTTP/1.1 301 Moved\r\nRetry-After: 99\r\nLocation: /x\r\n\r\n" +
		"HTTP/1.1 429 Too Many\r\nX-Long: a\r\n  b\r\nRetry-After: 7\r\n\r\nHTTP/ is not the next one"
	out, errs, code := abideLearn(t, text, "--time", "2023-11-14T22:13:20Z")
	if code != 0 || !strings.Contains(out, "2023-11-14 22:13:27 UTC, in 7s") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

func TestLearnTakesTheRequestFromFlagsAndTheResponseFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "saved.txt")
	text := "HTTP/1.1 200 OK\n\n" + `{"error":["EAPI:Rate limit exceeded"]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, code := abideLearn(t, "", "--host", "api.kraken.com", "--method", "POST", "--path", "/0/private/Balance", file); code != 0 || !strings.Contains(out, "200, a refusal") {
		t.Errorf("%d %s", code, out)
	}
	if out, _, _ := abideLearn(t, text, "-"); !strings.Contains(out, "200, no refusal") {
		t.Errorf("another host's: %s", out)
	}
}

func TestLearnSaysWhatIsWrongWithItsInput(t *testing.T) {
	for _, c := range []struct {
		input string
		args  []string
		code  int
		must  string
	}{
		{"", nil, 2, "reading standard input: it is empty"},
		{"hello\n", nil, 2, `"hello" is no status line`},
		{"HTTP/1.1 200 OK\nno colon\n\n", nil, 2, `missing colon: "no colon"; an empty line ends the headers`},
		{"HTTP/1.1 99 x\n\n", nil, 2, "no status line"},
		{"HTTP/1.1 200 OK\n\n", []string{"--time", "noon"}, 2, `--time: "noon" is neither`},
		{"HTTP/1.1 200 OK\n\n", []string{"--time", "1e99"}, 2, "--time"},
		{"", []string{"--jsonl", "--host", "x"}, 2, "--host is not for --jsonl"},
		{"", []string{"nowhere.txt"}, 1, "nowhere.txt"},
		{"", []string{"a", "b"}, 2, "usage:"},
	} {
		if _, errs, code := abideLearn(t, c.input, c.args...); code != c.code || !strings.Contains(errs, c.must) {
			t.Errorf("%q %q: %d %s", c.input, c.args, code, errs)
		}
	}
}

func TestLearnAnswersEachLineInOrder(t *testing.T) {
	input := `{"id":1,"request":{"method":"GET","host":"a.example","path":"/","time_unix":1700000000.5},"status":429,"headers":[["retry-after","1.25"]],"body":""}

{"id":"two","request":{"time_unix":1700000000},"status":200,"headers":[["RateLimit","\"a\";r=5;t=9"],["ratelimit-policy","\"a\";q=7;w=60"]]}
{"status":200,"headers":[]}`
	want := `{"id":1,"throttled":true,"scope":"token","bucket":null,"limit":null,"remaining":null,"reset_at_unix":null,"retry_at_unix":1700000001.75,"window_s":null}
{"id":"two","throttled":false,"scope":"route","bucket":"a","limit":7,"remaining":5,"reset_at_unix":1700000009,"retry_at_unix":null,"window_s":60}
{"id":null,"throttled":false,"scope":"none","bucket":null,"limit":null,"remaining":null,"reset_at_unix":null,"retry_at_unix":null,"window_s":null}
`
	if out, errs, code := abideLearn(t, input, "--jsonl"); code != 0 || errs != "" || out != want {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
}

func TestLearnGoesOnAfterALineThatItCannotRead(t *testing.T) {
	input := `{"id":1,"status":429}
{"id":2,"status":
{"id":3,"status":42}
{"id":4,"status":200,"headers":[["only a name"]]}
{"id":5,"status":200,"request":{"time_unix":-1}}
{"id":6,"status":200}
`
	out, errs, code := abideLearn(t, input, "--jsonl")
	if code != 2 {
		t.Errorf("exit status %d", code)
	}
	for n, must := range []string{`{"id":1,"throttled":true`, `{"id":null,"error":`, `{"id":3,"error":"status: 42`, `{"id":4,"error":"headers[0]`, `{"id":5,"error":"request.time_unix`, `{"id":6,"throttled":false`} {
		if lines := strings.Split(out, "\n"); !strings.HasPrefix(lines[n], must) {
			t.Errorf("line %d: %s, want %s", n+1, lines[n], must)
		}
	}
	for _, must := range []string{"standard input:2: ", "standard input:3: status", "standard input:4: headers[0]", "standard input:5: request.time_unix"} {
		if !strings.Contains(errs, must) {
			t.Errorf("no %q in\n%s", must, errs)
		}
	}
	if strings.Count(errs, "\n") != 4 {
		t.Errorf("standard error:\n%s", errs)
	}
}

func TestLearnReadsEveryVectorAsExpected(t *testing.T) {
	const file = "../../limit/learn/testdata/vectors.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		ID     string
		Expect map[string]any
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	out, errs, code := abideLearn(t, "", "--jsonl", file) // which has one a line
	if code != 0 || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(vectors) {
		t.Fatalf("%d lines for %d vectors", len(lines), len(vectors))
	}
	for n, v := range vectors {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[n]), &got); err != nil {
			t.Fatal(err)
		}
		if got["id"] != v.ID || len(got) != 9 {
			t.Errorf("%s: %s", v.ID, lines[n])
		}
		allowed, _ := v.Expect["range"].(map[string]any)
		for _, key := range []string{"throttled", "scope", "bucket", "limit", "remaining", "reset_at_unix", "retry_at_unix", "window_s"} {
			if !same(got[key], v.Expect[key], allowed, key) {
				t.Errorf("%s: %s: %v, want %v", v.ID, key, got[key], v.Expect[key])
			}
		}
	}
}

// same says whether an answer is the expected one, or one of those allowed.
func same(got, want any, allowed map[string]any, key string) bool {
	a, number := got.(float64)
	b, wanted := want.(float64)
	if got == want || number && wanted && math.Abs(a-b) < 1e-6 {
		return true
	}
	other, ok := allowed[key]
	if span, found := other.([]any); found && len(span) == 2 && key != "scope" {
		low, lowest := span[0].(float64)
		high, highest := span[1].(float64)
		if !number {
			return !lowest || !highest
		}
		return (!lowest || a >= low) && (!highest || a <= high)
	}
	list, _ := other.([]any)
	return ok && (other == nil || slices.Contains(list, got))
}
