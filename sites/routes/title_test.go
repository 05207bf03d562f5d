package routes

import (
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

func TestTitlesAreForPeople(t *testing.T) {
	for _, c := range []struct {
		amount       float64
		window       time.Duration
		bucket, name string
		unit         learn.Unit
		want         string
	}{
		{75, 15 * time.Minute, "", "", "", "75 per 15m"},
		{100, time.Hour, "core", "", "", "100 per 1h"},
		{1000, 24 * time.Hour, "", "24hour", "", "1000 per 1d"},
		{5, 90 * time.Second, "", "", "", "5 per 90s"},
		{5, 1500 * time.Millisecond, "", "", "", "5 per 1.5s"},
		{5000, 0, "core", "", "", "5000 of core"},
		{40, 0, "", "", "", "40 requests"},
		{40000, time.Minute, "", "tokens", learn.Tokens, "40000 tokens per 1m"},
		{150000, 0, "", "tokens", learn.Tokens, "150000 tokens"},
		{0, 0, "", "app", learn.Percent, "app"},
		{0, 0, "", "", learn.Percent, "percent"},
		{0, 0, "", "", "", "requests"},
		{1e300, time.Minute, "", "", "", "1e+300 per 1m"},
		{7, 0, "a\x1b[31mb", "", "", "7 of a?[31mb"},
		{7, 0, strings.Repeat("é", 100), "", "", "7 of " + strings.Repeat("??", 29) + "?"},
	} {
		g := group{bucket: c.bucket, key: nameKey{name: c.name, unit: c.unit}, window: c.window, amount: learn.Amount{N: c.amount, Known: c.amount > 0}}
		got := g.entitle()
		if strings.HasPrefix(c.bucket, "é") {
			if len(got) > longestTitle || !printable(got) {
				t.Errorf("%q is not bounded", got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%+v has the title %q", c, got)
		}
	}
}

func TestNamesOfServersAreBounded(t *testing.T) {
	v := visiting(t, "h.test")
	for _, bucket := range []string{strings.Repeat("b", 4000), strings.Repeat("b", 4001), "a\xffb", "a\xfeb"} {
		lesson := learn.Lesson{Scope: learn.Route, Limits: []learn.Limit{{Name: "n", Bucket: bucket, Limit: learn.Amount{N: 5, Known: true}}}}
		got := v.m.Learn(noon, v.class("GET /a"), "one", noon, &lesson)
		if len(got.Announcements) != 1 || len(got.Announcements[0].ID) > longestID || !printable(got.Announcements[0].ID) {
			t.Errorf("told %+v", got.Announcements)
		}
	}
	if ids := v.ids("GET /a"); len(ids) != 4 {
		t.Errorf("different names have one ID: %v", ids)
	}
}

// Title returns the title of a limit: "75 per 15m"; "" if the limit does not exist.
func (m *Table) Title(id string) string { return m.Limit(id).Title }

func printable(text string) bool { return bound(text, len(text)) == text }
