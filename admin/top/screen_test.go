package top

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/abide-proxy/abide/status"
)

// finished is a simulated terminal that knows whether it was restored.
type finished struct {
	tcell.SimulationScreen
	times int

	mu    sync.Mutex // the simulation gives its cells away while it may draw
	cells []tcell.SimCell
	width int
}

// Show draws, and keeps a copy of the cells.
func (f *finished) Show() {
	f.SimulationScreen.Show()
	f.mu.Lock()
	defer f.mu.Unlock()
	cells, width, _ := f.GetContents()
	f.width, f.cells = width, slices.Clone(cells)
	for i := range f.cells {
		f.cells[i].Runes = slices.Clone(f.cells[i].Runes)
	}
}

// drawn is what the terminal shows, line by line.
func (f *finished) drawn() (lines [][]tcell.SimCell) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.width > 0 {
		lines = slices.Collect(slices.Chunk(f.cells, f.width))
	}
	return lines
}

func (f *finished) Fini() {
	f.times++
	f.SimulationScreen.Fini()
}

// live is a table that is shown in a simulated terminal, in a bubble of synctest.
type live struct {
	t        *testing.T
	terminal *finished
	cancel   context.CancelFunc
	ended    chan error
}

func newTestTerminal() *finished {
	return &finished{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
}

// showLive shows the table in a terminal of a size.
func showLive(t *testing.T, from *canned, width, height int) *live {
	l := &live{t: t, terminal: newTestTerminal(), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	go func() {
		l.ended <- Run(ctx, Options{Source: from, Address: "127.0.0.1:9128", Every: time.Second, Screen: l.terminal})
	}()
	synctest.Wait()
	l.resize(width, height)
	return l
}

func (l *live) resize(width, height int) {
	l.terminal.SetSize(width, height)
	l.pass(200 * time.Millisecond) // tview draws at most 20 times a second
}

// pass lets time pass.
func (l *live) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// press presses the keys of a text.
func (l *live) press(text string) {
	for _, r := range text {
		l.key(tcell.KeyRune, r)
	}
}

func (l *live) key(key tcell.Key, r rune) {
	l.terminal.InjectKey(key, r, tcell.ModNone)
	synctest.Wait()
}

// lines are the lines of the terminal.
func (l *live) lines() []string {
	var lines []string
	for _, cells := range l.terminal.drawn() {
		var line strings.Builder
		for _, one := range cells {
			line.WriteString(string(one.Runes))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// sees expects the lines of the table to begin with texts.
func (l *live) sees(begins ...string) {
	l.t.Helper()
	table := l.lines()[headerLines:]
	for i, want := range begins {
		if i >= len(table) || !strings.HasPrefix(table[i], want) {
			l.t.Fatalf("line %d of the table does not begin with %q:\n%s", i+1, want, strings.Join(l.lines(), "\n"))
		}
	}
}

// has expects a text somewhere.
func (l *live) has(texts ...string) {
	l.t.Helper()
	for _, text := range texts {
		if all := strings.Join(l.lines(), "\n"); !strings.Contains(all, text) {
			l.t.Fatalf("nowhere is %q:\n%s", text, all)
		}
	}
}

// hasNot expects that no line has the text.
func (l *live) hasNot(text string) {
	l.t.Helper()
	if all := strings.Join(l.lines(), "\n"); strings.Contains(all, text) {
		l.t.Fatalf("%q is there:\n%s", text, all)
	}
}

// marked is the line that is selected, "" without one.
func (l *live) marked() string {
	for y, cells := range l.terminal.drawn() {
		if _, _, attributes := cells[0].Style.Decompose(); attributes&tcell.AttrReverse != 0 {
			return l.lines()[y]
		}
	}
	return ""
}

// end ends the table and returns its error.
func (l *live) end() error {
	l.t.Helper()
	l.cancel()
	return l.over()
}

// over expects that the table has ended or ends now, and that the terminal is restored.
func (l *live) over() error {
	l.t.Helper()
	err := <-l.ended
	if l.terminal.times != 1 {
		l.t.Errorf("the terminal was restored %d times", l.terminal.times)
	}
	return err
}

func TestTheTableIsRefreshedEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("api.test"), site("news.test"))
		from.rates["api.test"], from.rates["news.test"] = 2, 30
		from.sites[0].Held, from.sites[0].LongestWait, from.sites[0].LimitedBy, from.sites[0].Refusals, from.sites[0].Breaker = 5, 65, "2 per 1s", 7, "half-open"
		from.forecasts = []status.Forecast{{Site: "api.test", Limit: "1000 per day", Amount: 1000, Used: 900, Left: 100, Rate: 2, Opens: from.began, Ends: from.began.Add(1e6 * time.Hour), RunsOut: from.began.Add(time.Hour)}}
		from.checks = []status.Check{{Name: "store", OK: true, Degraded: true, Detail: "it is away"}, {Name: "proxy", OK: true}}
		l := showLive(t, from, 110, 10)
		l.pass(5 * time.Second)
		if from.asked != 6 || from.forecast != 1 {
			t.Errorf("asked %d times for the status and %d times for forecasts", from.asked, from.forecast)
		}
		l.sees(
			"SITE           REQ/S↓  RECV/S  SENT/S  WAIT   LONGEST LIMITED BY    REFUSED STATE",
			"news.test          30   30 kB  3.0 kB     0         - -                   0 ok",
			"api.test          2.0  2.0 kB   200 B     5      1m5s 2 per 1s            7 on trial",
		)
		l.has(
			"abide 1.2.3 at 127.0.0.1:9128  up 5s  2 sites\n32 requests/s  32 kB/s received  3.2 kB/s sent  0 requests wait  4 connections, 1 tunnel\n"+
				"quota of api.test, 1000 per day: 90 % used, at this rate until 01:00 UTC",
			"store is degraded: it is away\n", "s sort  r reverse",
		)
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhileAnAbideDoesNotAnswerThatIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("api.test"))
		l := showLive(t, from, 100, 10)
		l.hasNot("NO ANSWER")
		from.set(func(c *canned) { c.failed = errors.New("no proxy is running at 127.0.0.1:9128") })
		l.pass(time.Second)
		l.has("NO ANSWER, asked again each time: no proxy is running at 127.0.0.1:9128", "api.test ")
		l.resize(40, 10)
		l.pass(2 * time.Second)
		l.has("NO ANSWER, asked again each time: no pr…\n", "s sort  r reverse  / filter  p pause  e…")
		l.resize(100, 10)
		from.set(func(c *canned) {
			c.failed, c.began, c.sites, c.rates["new.test"] = nil, time.Now(), []status.Site{site("new.test")}, 4
		})
		l.pass(time.Second)
		l.hasNot("NO ANSWER")
		l.sees("SITE", "new.test          4.0")
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestASlowAbideDelaysNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := newCanned(site("b.test"), site("a.test"))
		l := showLive(t, from, 100, 10)
		from.set(func(c *canned) { c.slow = true })
		l.pass(2 * time.Second)
		l.sees("SITE", "a.test", "b.test")
		l.press("1r")
		l.sees("SITE↑", "b.test", "a.test")
		l.press("p")
		l.has("Pause b.test?")
		l.key(tcell.KeyEscape, 0)
		l.hasNot("Pause b.test?")
		l.pass(patience)
		l.has("NO ANSWER, asked again each time: no answer in time")
		before := time.Now()
		l.press("q")
		if err := l.over(); err != nil || time.Since(before) > 0 {
			t.Errorf("%v, after %v", err, time.Since(before))
		}
	})
}

func TestAnAbideThatDoesNotAnswerAtFirstIsAnError(t *testing.T) {
	from, terminal := newCanned(), newTestTerminal()
	from.failed = errors.New("no proxy is running")
	if err := Run(t.Context(), Options{Source: from, Every: time.Second, Screen: terminal}); !errors.Is(err, from.failed) || terminal.times != 0 {
		t.Errorf("%v; the terminal was restored %d times", err, terminal.times)
	}
}

func TestATerminalThatFailsEndsTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := showLive(t, newCanned(site("api.test")), 80, 10)
		if err := l.terminal.PostEvent(tcell.NewEventError(errors.New("input/output error"))); err != nil {
			t.Fatal(err)
		}
		if err := l.over(); err == nil || err.Error() != "the terminal fails: input/output error" {
			t.Error(err)
		}
	})
}

// broken is a terminal that cannot be used.
type broken struct{ *finished }

func (broken) Init() error { return errors.New("no such device") }

func TestATerminalThatCannotBeUsedIsAnError(t *testing.T) {
	terminal := &broken{newTestTerminal()}
	err := Run(t.Context(), Options{Source: newCanned(), Every: time.Second, Screen: terminal})
	if err == nil || err.Error() != "this terminal cannot show the table (no such device); --once prints it" {
		t.Error(err)
	}
}

func TestAPanicRestoresTheTerminalFirst(t *testing.T) {
	from, terminal := newCanned(site("api.test")), newTestTerminal()
	defer func() {
		said, _ := recover().(string)
		if terminal.times != 1 || !strings.HasPrefix(said, "the source panics\n") || !strings.Contains(said, "canned_test.go") {
			t.Errorf("restored %d times, then a panic with %q", terminal.times, said)
		}
	}()
	err := Run(t.Context(), Options{Source: &later{canned: from}, Every: time.Millisecond, Screen: terminal})
	t.Errorf("it ended with %v", err)
}

// later panics when it is asked for its status again.
type later struct{ *canned }

func (l *later) Get(ctx context.Context, path string, to any) error {
	err := l.canned.Get(ctx, path, to)
	if path == "status" {
		l.set(func(c *canned) { c.panics = true })
	}
	return err
}

func TestTheEndOfTheContextEndsTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := showLive(t, newCanned(site("api.test")), 80, 10)
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestCtrlCEndsTheTableEverywhere(t *testing.T) {
	for name, keys := range map[string]string{"in the table": "", "in the filter": "/ab", "in a dialog": "p", "in the help": "?", "in the tokens": "t"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := showLive(t, newCanned(site("api.test")), 80, 24)
				l.press(keys)
				l.key(tcell.KeyCtrlC, 0)
				if err := l.over(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
