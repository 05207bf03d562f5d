package learn

import (
	"encoding/json"
	"fmt"
	"math"
	"net/textproto"
	"os"
	"slices"
	"testing"
	"time"
)

// A vector is one response and what it teaches, as testdata/vectors.json has
// them. null is a number that is not known; range has the values that are right, too: the least and
// the most, or a list of scopes.
//
// Some members are for readers only, and no test looks at them:
//   - layer: what reads the response: "generic" is the rules for all servers, "body" the refusals that
//     are found in bodies, "dialect" a row of dialects.go
//   - dialect: the service, standard or program that answers so; "hostile" is invented to do harm
//   - source: where the response was found; missing if it is invented
//   - note, in expect: why this is expected
//   - units_hint, in expect: the server's own word for its unit
type vector struct {
	ID      string
	Request struct {
		Method, Host, Path string
		Time               float64 `json:"time_unix"`
	}
	Status  int
	Headers [][2]string
	Body    string
	Expect  struct {
		Throttled bool
		Scope     string
		Bucket    *string
		Limit     *float64
		Remaining *float64
		Reset     *float64 `json:"reset_at_unix"`
		Retry     *float64 `json:"retry_at_unix"`
		Window    *float64 `json:"window_s"`
		Range     map[string]json.RawMessage
		Permanent bool
		Used      *float64
		Percent   *float64
		Rate      *float64 `json:"rate_per_s"`
		Unit      string   `json:"units"`

		Documented string `json:"scope_dialect"`
	}
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (v *vector) now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(math.Round(v.Request.Time * 1e9)))
}

func (v *vector) headers() map[string][]string { return headersOf(v.Headers...) }

func headersOf(lines ...[2]string) map[string][]string {
	headers := map[string][]string{}
	for _, line := range lines {
		name := textproto.CanonicalMIMEHeaderKey(line[0])
		headers[name] = append(headers[name], line[1])
	}
	return headers
}

func (v *vector) read() Lesson {
	request := Request{Method: v.Request.Method, Host: v.Request.Host, Path: v.Request.Path}
	return Read(v.Status, v.headers(), []byte(v.Body), request, v.now())
}

func TestEveryVectorIsReadAsExpected(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			l := v.read()
			if l.Throttled != v.Expect.Throttled {
				t.Errorf("throttled: %v, want %v", l.Throttled, v.Expect.Throttled)
			}
			scopes := []string{v.Expect.Scope}
			if raw, ok := v.Expect.Range["scope"]; ok {
				scopes = nil
				if err := json.Unmarshal(raw, &scopes); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Contains(scopes, l.Scope.String()) {
				t.Errorf("scope: %v, want %v", l.Scope, scopes)
			}
			if _, any := v.Expect.Range["bucket"]; !any {
				want := ""
				if v.Expect.Bucket != nil {
					want = *v.Expect.Bucket
				}
				if l.Bucket != want {
					t.Errorf("bucket: %q, want %q", l.Bucket, want)
				}
			}
			v.same(t, "limit", value(l.Limit), v.Expect.Limit)
			v.same(t, "remaining", value(l.Remaining), v.Expect.Remaining)
			v.same(t, "reset_at_unix", unix(l.Reset), v.Expect.Reset)
			v.same(t, "retry_at_unix", unix(l.RetryAt), v.Expect.Retry)
			var window *float64
			if l.Window > 0 {
				seconds := l.Window.Seconds()
				window = &seconds
			}
			v.same(t, "window_s", window, v.Expect.Window)
			v.besides(t, l)
		})
	}
}

// besides checks what not every vector says.
func (v *vector) besides(t *testing.T, l Lesson) {
	if l.Permanent != v.Expect.Permanent {
		t.Errorf("permanent: %v", l.Permanent)
	}
	var first Limit
	if len(l.Limits) > 0 {
		first = l.Limits[0]
	}
	if want := v.Expect.Used; want != nil && first.Used.N != *want {
		t.Errorf("used: %v, want %v", first.Used, *want)
	}
	if want := v.Expect.Percent; want != nil && (first.Used.N != *want || first.Unit != Percent) {
		t.Errorf("percent: %v %v, want %v", first.Used, first.Unit, *want)
	}
	if want := v.Expect.Rate; want != nil && first.Rate != *want {
		t.Errorf("rate: %v, want %v", first.Rate, *want)
	}
	if want := v.Expect.Unit; want != "" && string(first.Unit) != want {
		t.Errorf("unit: %q, want %q", first.Unit, want)
	}
	if want := v.Expect.Documented; want != "" && want != l.Scope.String() && l.Documented.String() != want {
		t.Errorf("documented: %v, want %v", l.Documented, want)
	}
}

func value(a Amount) *float64 {
	if !a.Known {
		return nil
	}
	return &a.N
}

func unix(at time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	seconds := float64(at.UnixNano()) / 1e9
	return &seconds
}

// same compares within a microsecond, or with the range that a vector allows.
func (v *vector) same(t *testing.T, name string, got, want *float64) {
	t.Helper()
	near := func(a, b *float64) bool {
		return a == nil && b == nil || a != nil && b != nil && math.Abs(*a-*b) < 1e-6
	}
	if near(got, want) {
		return
	}
	if raw, ok := v.Expect.Range[name]; ok {
		var span [2]*float64
		if err := json.Unmarshal(raw, &span); err != nil {
			t.Fatal(err)
		}
		if got == nil && (span[0] == nil || span[1] == nil) {
			return
		}
		if got != nil && (span[0] == nil || *got >= *span[0]-1e-6) && (span[1] == nil || *got <= *span[1]+1e-6) {
			return
		}
	}
	show := func(n *float64) string {
		if n == nil {
			return "null"
		}
		return fmt.Sprintf("%.6f", *n)
	}
	t.Errorf("%s: %s, want %s", name, show(got), show(want))
}
