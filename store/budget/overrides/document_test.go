package overrides

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestADocumentIsReadAsItWasWritten(t *testing.T) {
	limits, err := policy.ParseLimits([]byte(`{"limits":[{"requests":5,"per":"1m"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pause := &status.Pause{Reason: `a "reason"`, Since: since, Until: since.Add(time.Hour)}
	for _, one := range []Override{{Limits: limits}, {Limits: []policy.Limit{}}, {Pause: pause}, {Limits: limits, Pause: pause}, {Pause: &status.Pause{Since: since}}} {
		text, err := format(one)
		if err != nil {
			t.Fatal(err)
		}
		read, err := parse(text)
		if err != nil || !same(read, one) {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
	if text, err := format(Override{}); text != nil || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	// As releases before pauses wrote it.
	if o, err := parse([]byte(`{"limits": [{"requests": 5, "per": "1m"}]}`)); err != nil || len(o.Limits) != 1 || o.Pause != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`{}`, `{"limits":[]}`, `{"pause":{"since":"2026-11-23T12:00:00Z"}}`, `{"limits":[{"requests":5,"per":"1m"}],"pause":{"reason":"x"}}`, `{"limits":null}`, `{"pause":null}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parse(data)
		if err != nil {
			return
		}
		text, err := format(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(text)
		if err != nil || !same(o, again) {
			t.Errorf("%q is written as %q and read as %+v, %v", data, bytes.TrimSpace(text), again, err)
		}
	})
}

func TestAReasonIsOneLine(t *testing.T) {
	for reason, want := range map[string]bool{"": true, "they migrate – ü": true, "a\nb": false, "\x1b[31m": false} {
		if (status.Line(reason) == reason) != want {
			t.Errorf("%q", reason)
		}
	}
	if !status.IsPause((&status.Pause{Reason: "x"}).Title()) || status.IsPause("5 requests") || !strings.HasSuffix((&status.Pause{Reason: "x"}).Title(), ": x") {
		t.Error((&status.Pause{Reason: "x"}).Title())
	}
	for _, reason := range []string{"", "until noon: they migrate"} {
		timed := status.Pause{Reason: reason, Until: time.Now()}
		if got, want := status.Past(timed.Title()), (&status.Pause{Reason: reason}).Title(); got != want || status.Past(want) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
