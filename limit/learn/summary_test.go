package learn

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// readShort reads a response that is written short: "GET api.x.com/2/tweets 429 | X-Rate: 1 | … || body".
func readShort(t testing.TB, text string) Lesson {
	t.Helper()
	text, body, _ := strings.Cut(text, " || ")
	parts := strings.Split(text, " | ")
	var method, target string
	var status int
	if _, err := fmt.Sscanf(parts[0], "%s %s %d", &method, &target, &status); err != nil {
		t.Fatalf("%q: %v", parts[0], err)
	}
	host, path, _ := strings.Cut(target, "/")
	var lines [][2]string
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(part, ": ")
		if !ok {
			t.Fatalf("%q is no header", part)
		}
		lines = append(lines, [2]string{name, value})
	}
	return Read(status, headersOf(lines...), []byte(body), Request{Method: method, Host: host, Path: "/" + path}, base)
}

// summary is a lesson written short: "refused route core 0/60 reset 1800 retry
// 1800 window 60", with ? for what is unknown and times from now.
func summary(l Lesson) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case l.Permanent:
		add("refused for good")
	case l.Lock:
		add("locked")
	case l.Concurrency:
		add("refused in flight")
	case l.Throttled:
		add("refused")
	default:
		add("served")
	}
	add("%v", l.Scope)
	if l.Bucket != "" {
		add("%s", l.Bucket)
	}
	show := func(a Amount) string {
		if !a.Known {
			return "?"
		}
		return fmt.Sprint(a.N)
	}
	if l.Limit.Known || l.Remaining.Known {
		add("%s/%s", show(l.Remaining), show(l.Limit))
	}
	ahead := func(name string, at time.Time) {
		if !at.IsZero() {
			add("%s %v", name, at.Sub(base).Seconds())
		}
	}
	ahead("reset", l.Reset)
	ahead("retry", l.RetryAt)
	if l.Window > 0 {
		add("window %v", l.Window.Seconds())
	}
	return strings.Join(out, " ")
}

// A short is one response and the lesson in it.
type short struct{ response, want string }

func check(t *testing.T, cases []short) {
	t.Helper()
	for _, c := range cases {
		if got := summary(readShort(t, c.response)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.response, got, c.want)
		}
	}
}
