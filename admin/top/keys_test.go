package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gdamore/tcell/v2"
	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/status"
)

func TestKeysSortTheSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("a.test"), site("b.test"), site("c.test"))
		from.rates["b.test"] = 5
		from.sites[2].Held, from.sites[2].LimitedBy = 3, "2 in flight"
		from.sites[0].Breaker, from.sites[0].Refusals = "open", 1
		l := showLive(t, from, 110, 12)
		l.pass(5 * time.Second)
		for _, c := range []struct{ keys, title, order string }{
			{"", "REQ/S↓", "b a c"},
			{"r", "REQ/S↑", "a c b"},
			{"1", "SITE↓", "a b c"},
			{"r", "SITE↑", "c b a"},
			{"5", "WAIT↓", "c a b"},
			{"7", "LIMITED BY↓", "c a b"},
			{"8", "REFUSED↓", "a b c"},
			{"s", "STATE↓", "a b c"},
			{"s", "SITE↓", "a b c"},
			{"2", "REQ/S↓", "b a c"},
			{"s", "RECV/S↓", "b a c"},
			{"0", "RECV/S↓", "b a c"},
		} {
			l.press(c.keys)
			order := strings.Fields(c.order)
			l.sees("SITE", order[0]+".test", order[1]+".test", order[2]+".test")
			if title := l.lines()[headerLines]; !strings.Contains(title, c.title) || strings.Count(title, "↓")+strings.Count(title, "↑") != 1 {
				t.Errorf("%q: %q, want %s", c.keys, title, c.title)
			}
		}
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheSelectionStaysWithItsSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("a.test"), site("b.test"), site("c.test"))
		l := showLive(t, from, 110, 12)
		// Before the user selects a site, the first is selected.
		if !strings.HasPrefix(l.marked(), "a.test") {
			t.Errorf("%q is selected", l.marked())
		}
		from.set(func(c *canned) { c.rates["c.test"] = 10 })
		l.pass(time.Second)
		l.sees("SITE", "c.test", "a.test", "b.test")
		if !strings.HasPrefix(l.marked(), "c.test") {
			t.Errorf("%q is selected", l.marked())
		}
		l.key(tcell.KeyDown, 0)
		from.set(func(c *canned) { c.rates["b.test"] = 20 })
		l.pass(time.Second)
		l.sees("SITE", "b.test", "c.test", "a.test")
		if !strings.HasPrefix(l.marked(), "a.test") {
			t.Errorf("%q is selected", l.marked())
		}
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheFilterLeavesSitesWithItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := showLive(t, newCanned(site("api.test"), site("News.test"), site("newt.test")), 110, 12)
		l.press("/NEW")
		l.sees("SITE", "News.test", "newt.test")
		l.hasNot("api.test")
		l.has("filter: NEW")
		l.press("x")
		l.hasNot(".test")
		l.key(tcell.KeyBackspace2, 0)
		l.key(tcell.KeyEnter, 0)
		l.has("filter: NEW  / changes it, esc removes it")
		l.press("p")
		l.has("Pause News.test?")
		l.key(tcell.KeyEscape, 0)
		l.key(tcell.KeyEscape, 0)
		l.sees("SITE", "News.test", "api.test", "newt.test")
		l.press("/a")
		l.key(tcell.KeyEscape, 0)
		l.sees("SITE", "News.test", "api.test", "newt.test")
		// Without a site nothing can be selected or paused.
		l.press("/nothing")
		l.key(tcell.KeyEnter, 0)
		for _, key := range []tcell.Key{tcell.KeyDown, tcell.KeyUp, tcell.KeyEnd, tcell.KeyPgUp, tcell.KeyEnter} {
			l.key(key, 0)
		}
		l.press("p")
		l.hasNot("Pause")
		l.has("filter: nothing")
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestASiteIsPausedAfterAQuestionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("api.test"))
		l := showLive(t, from, 110, 16)
		enter := func() { l.key(tcell.KeyEnter, 0) }
		l.press("p")
		l.has("Pause api.test?", "Reason", "For (2h; empty: until resumed)")
		l.key(tcell.KeyEscape, 0)
		l.press("pp")
		enter()
		l.press("2h")
		enter()
		l.key(tcell.KeyTab, 0) // to Cancel
		enter()
		if len(from.changes) > 0 {
			t.Fatalf("%q", from.changes)
		}
		l.press("pq: they ask")
		enter()
		l.press(" 2h ")
		enter()
		enter()
		l.has("api.test is paused", " paused\n")
		l.press("p")
		l.has("Resume api.test?")
		l.key(tcell.KeyEscape, 0)
		l.press("p")
		enter()
		l.has("api.test is resumed", " ok\n")
		if want := []string{`pause api.test "q: they ask" "2h"`, "resume api.test"}; !slices.Equal(from.changes, want) {
			t.Errorf("%q, want %q", from.changes, want)
		}
		from.set(func(c *canned) { c.refused = errors.New("3x is no time") })
		l.press("p")
		enter()
		enter()
		enter()
		l.has("pausing api.test failed: 3x is no time")
		l.press("r")
		l.hasNot("failed")
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestHoldsAndTokensHaveTablesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("api.test"), site("idle.test"))
		from.holds = []status.Hold{
			{Site: "api.test", Client: "news", Priority: 3, Waited: 75, Limit: "2 per 1s", Until: from.began.Add(90 * time.Second), Expected: from.began.Add(20 * time.Second)},
			{Site: "api.test", Priority: 0, Waited: 1},
		}
		limits := []status.Announced{{Site: "api.test", Limit: 100, Remaining: 60, Title: "much"}, {Site: "api.test", Limit: 100, Remaining: 6, Title: "100 per 15m", Reset: from.began.Add(time.Minute)}}
		from.tokens = status.Tokens{Pools: []status.Pool{{Name: "keys", Count: 2, Tokens: []status.Token{
			{Label: "one", State: "cooling", Until: from.began.Add(30 * time.Second), Uses: 12, Refusals: 3, Limits: limits}, {Label: "two", State: "ready"},
		}}}}
		l := showLive(t, from, 110, 10)
		l.key(tcell.KeyEnter, 0)
		l.sees("CLIENT PRIORITY WAITED WAITS FOR", "news   3        1m15s  2 per 1s  in 1 min", "-      0        1s     its turn  another is done")
		l.has("esc back  q quit  2 requests wait at api.test")
		l.press("prs/") // they mean nothing here
		l.sees("CLIENT PRIORITY WAITED WAITS FOR", "news")
		// When the selected request is gone, another is selected.
		l.key(tcell.KeyEnd, 0)
		from.set(func(c *canned) { c.holds = c.holds[:1] })
		l.pass(time.Second)
		if !strings.HasPrefix(l.marked(), "news") {
			t.Errorf("%q is selected", l.marked())
		}
		l.key(tcell.KeyEscape, 0)
		if !strings.HasPrefix(l.marked(), "api.test") {
			t.Errorf("%q is selected", l.marked())
		}
		l.key(tcell.KeyDown, 0)
		l.key(tcell.KeyEnter, 0)
		l.has("0 requests wait at idle.test")
		l.key(tcell.KeyBackspace2, 0)
		l.press("t")
		l.sees("POOL TOKEN STATE", "keys one   cooling, ends in 29 s 12   3       6 of 100 api.test: 100 per 15m in 59 s", "keys two   ready")
		l.has("2 tokens")
		if !strings.HasPrefix(l.marked(), "keys one") {
			t.Errorf("%q is selected", l.marked())
		}
		// Until there is an answer, nothing of an earlier one is shown.
		l.key(tcell.KeyEscape, 0)
		l.key(tcell.KeyHome, 0)
		l.key(tcell.KeyEnter, 0)
		l.sees("CLIENT", "news")
		from.set(func(c *canned) { c.slow = true })
		l.key(tcell.KeyEscape, 0)
		l.key(tcell.KeyDown, 0)
		l.key(tcell.KeyEnter, 0)
		l.has("waiting for abide's answer")
		l.hasNot("news")
		l.press("q")
		if err := l.over(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheHelpNamesKeysAndColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := showLive(t, newCanned(site("api.test")), 80, 24)
		l.press("?")
		l.has("p  pause or resume", "enter     what waits there", "q    quit ")
		for i, c := range columns {
			l.has(fmt.Sprintf("%d  %-11s %s", i+1, c.title, c.help))
		}
		l.press("q")
		l.hasNot("Keys and columns")
		l.sees("SITE", "api.test")
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestNoNameBreaksTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("[red]a[-]"), site("\x1b[2J\x1b]0;b\a\n\rc"), site("[::r]"), site("日本語.test"), site("\u202eevil\xff"))
		from.holds = []status.Hold{{Site: "[red]a[-]", Client: "[blue]\x1b]0;news", Priority: 1}}
		l := showLive(t, from, 110, 12)
		l.press("1")
		l.sees("SITE")
		l.has("\n [2J ]0;b   c ", "\n[red]a[-] ", "\n[::r] ", "\n evil\ufffd ")
		for _, r := range strings.Join(l.lines(), "") {
			if r < ' ' || r == '\u202e' {
				t.Errorf("%q is in the terminal", r)
			}
		}
		l.press("p")
		l.has("Pause  [2J ]0;b   c?")
		l.key(tcell.KeyEscape, 0)
		l.press("/[red")
		l.key(tcell.KeyEnter, 0)
		l.has("filter: [red  / changes it")
		l.press("p")
		l.has(" Pause [red]a[-]? ")
		l.key(tcell.KeyEscape, 0)
		l.key(tcell.KeyEnter, 0)
		l.has("\n[blue]\x20]0;news 1 ", "1 request waits at [red]a[-]")
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever the user presses, whatever the size of the terminal is, and whatever the abide
// answers, the table goes on until it ends by ctrl-C, and the terminal is restored.
func TestNoKeyAndNoSizeBreaksTheTable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.String(), 0, 20).Draw(r, "sites")
		keys := rapid.SliceOfN(rapid.SampledFrom([]tcell.Key{
			tcell.KeyRune, tcell.KeyRune, tcell.KeyRune, tcell.KeyEnter, tcell.KeyEscape, tcell.KeyUp, tcell.KeyDown, tcell.KeyEnd, tcell.KeyHome,
			tcell.KeyPgUp, tcell.KeyPgDn, tcell.KeyTab, tcell.KeyBackspace2, tcell.KeyLeft, tcell.KeyRight, tcell.KeyF1, tcell.KeyCtrlZ,
		}), 0, 40).Draw(r, "keys")
		runes := rapid.SliceOfN(rapid.SampledFrom([]rune("sr/pt?123456789kjgGé")), len(keys), len(keys)).Draw(r, "runes")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 60), 2*len(keys)+2, 2*len(keys)+2).Draw(r, "sizes")
		synctest.Test(t, func(t *testing.T) {
			from := newCanned()
			for _, name := range names {
				from.sites = append(from.sites, site(name))
				from.holds = append(from.holds, status.Hold{Site: name, Client: name})
			}
			l := showLive(t, from, sizes[0], sizes[1])
			for i, key := range keys {
				l.key(key, runes[i])
				if i%3 == 0 {
					l.resize(3*sizes[2*i+2], sizes[2*i+3])
				}
				from.set(func(c *canned) { c.sites = c.sites[:len(c.sites)-min(len(c.sites), i%2)] })
			}
			l.key(tcell.KeyCtrlC, 0)
			if err := l.over(); err != nil {
				t.Error(err)
			}
		})
	})
}
