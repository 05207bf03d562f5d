package status

import (
	"strings"
	"testing"
	"time"
)

func TestTimesToComeAreReadable(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		-time.Second: "now", 0: "now", time.Millisecond: "in 1 s", 59 * time.Second: "in 59 s", 59*time.Second + 1: "in 60 s", time.Minute: "in 1 min 00 s",
		15*time.Minute - time.Second: "in 14 min 59 s", 90 * time.Minute: "in 1 h 30 min", 24 * time.Hour: "2 March 2026, 12:00 UTC",
	} {
		if got := In(now.Add(left), now); got != want {
			t.Errorf("%v is %q, not %q", left, got, want)
		}
	}
	if got := In(time.Time{}, now); got != "another is done" {
		t.Error(got)
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9960: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB", 1 << 63: "9.2 EB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, not %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
}

// TestALongReasonIsWholeInATable: it takes lines of its own column.
func TestALongReasonIsWholeInATable(t *testing.T) {
	var text strings.Builder
	waits := Waits{N: 1, List: []Wait{{Site: "a.test", N: 1, Limit: "cooldown of any of 3 tokens of twitter", Why: "the site answers 503 to all requests, the last time because the connection was reset"}}}
	Process{Waiting: &waits}.DescribeWaiting(&text, time.Time{})
	want := `
1 request waits

SITE    REQUESTS  FOR                                                           UNTIL
a.test         1  a pause after refusals or failures of any of 3 tokens of      another is done
                  twitter: the site answers 503 to all requests, the last time
                  because the connection was reset
`
	if text.String() != want {
		t.Errorf("it is %s", text.String())
	}
}

func TestADurationIsSpelledInOneForm(t *testing.T) {
	for text, want := range map[string]string{"8.8s": "8.8 s", "500ms": "0.5 s", "3 s": "3 s", "59s": "59 s", "1m30s": "1 min 30 s", "2h0m0s": "2 h 00 min"} {
		if got := Spelled(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
