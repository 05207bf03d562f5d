package tokens

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// Whatever is kept of tokens, or told by another instance, no token is put away for longer
// than the longest quarantine, and what is remembered has a bound.
func FuzzSavedStates(f *testing.F) {
	pool := func(t testing.TB) (*Pool, string) {
		p := policy.Pool{Name: "p", Put: bearer()}
		l, err := loadText(p, []byte("one\ntwo\n"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := New(start, p, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Close)
		return made, made.Set().Tokens()[0].Stable()
	}
	_, stable := pool(f)
	for _, list := range [][]SavedState{
		{{Token: stable, Quarantined: start.Add(time.Hour), Times: 3, Why: "401"}},
		{{Token: stable, Disabled: "by hand"}, {Token: stable, Left: start}},
	} {
		text, err := json.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, int64(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, offset int64) {
		var list []SavedState
		var switches []Switch
		if json.Unmarshal(text, &list) != nil || len(list) > 100 {
			return
		}
		_ = json.Unmarshal(text, &switches)
		now := start.Add(time.Duration(offset) % (50 * 365 * 24 * time.Hour))
		p, _ := pool(t)
		p.Restore(now, list)
		for _, m := range list {
			p.ApplyQuarantine(now, m)
		}
		for _, o := range switches {
			p.ApplySwitch(now, o)
		}
		known := p.SavedStates(now)
		if len(known) > len(list)+2+len(switches) {
			t.Fatalf("%d are remembered of %d", len(known), len(list))
		}
		for _, m := range known {
			if m.Quarantined.Sub(now) > longestQuarantine+longestQuarantine/2 || len(m.Why) > maxReasonBytes || len(m.Disabled) > maxReasonBytes {
				t.Fatalf("at %v: %+v", now, m)
			}
		}
	})
}
