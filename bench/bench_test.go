package main

import (
	"bufio"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAQuickRunMeasuresAbideAndThePeersWrittenInGo builds the real programs and
// reads the report that a user would read.
func TestAQuickRunMeasuresAbideAndThePeersWrittenInGo(t *testing.T) {
	dir := t.TempDir()
	bench, file := filepath.Join(dir, "bench"), filepath.Join(dir, "RESULTS.md")
	if out, err := exec.Command("go", "build", "-o", bench, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the bench: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, bench, "-quick", "-with", "abide,abide+limits,abide+concurrency,goproxy,goproxy+pool,splice", "-out", file)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) } // it ends its peers then
	run.WaitDelay = 20 * time.Second
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("bench -quick: %v\n%s", err, out)
	}
	report := readReport(t, file)
	for _, s := range scenarios {
		rows := report[s.title]
		for _, peer := range []string{"abide", withLimits, withFlight, "goproxy", "goproxy+pool", "splice"} {
			if !slices.Contains(s.peers, peer) {
				continue
			}
			cells := rows[peer]
			if len(cells) != len(s.figures)+2 {
				t.Errorf("%s: %s has the cells %q", s.name, peer, cells)
				continue
			}
			// A little CPU time may round to none, and memory that was free
			// already need not grow; anything else must be there.
			for i, f := range s.figures {
				if v := leading(cells[i]); !strings.HasPrefix(f.title, "CPU") && (math.IsNaN(v) || v < 0) {
					t.Errorf("%s: %s: %s is %q", s.name, peer, f.title, cells[i])
				}
			}
		}
	}
	judged := 0
	for what, cells := range report["Targets"] {
		if !strings.HasPrefix(cells[len(cells)-1], "not measured") {
			judged++
		} else {
			t.Logf("not measured: %s", what)
		}
	}
	if queued := report[titleOf("isolation")][besideQueue]; len(queued) == 0 || leading(queued[3]) <= 0 {
		t.Errorf("nothing waited: %q", queued)
	}
	if judged < 10 {
		t.Errorf("only %d targets were judged:\n%s", judged, out)
	}
}

func titleOf(name string) string {
	return scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })].title
}

// readReport takes the tables of a report apart: heading, first cell, the rest.
func readReport(t *testing.T, file string) map[string]map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	report := map[string]map[string][]string{} // :: heading → first cell → other cells
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "fault:") {
			t.Error(line)
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading = title
			report[heading] = map[string][]string{}
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| --- ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		report[heading][strings.TrimSuffix(cells[0], " ~")] = cells[1:]
	}
	return report
}

// leading is the number that a cell starts with.
func leading(cell string) float64 {
	word, _, _ := strings.Cut(cell, " ")
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func TestACoreListIsSpeltOut(t *testing.T) {
	for list, want := range map[string]string{"0": "0", "0-1": "0 1", "0-2,5": "0 1 2 5", "": "", "x": "", "1-y": ""} {
		if got := strings.Join(parseCores(list), " "); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

func TestTheMedianLiesInTheMiddleAndIgnoresWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4}},
		{[]float64{math.NaN(), 5}, spread{5, 5, 5}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
	if got := spreadOf(nil); !math.IsNaN(got.Median) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestNoisyRoundsAreDroppedWhileEnoughQuietOnesRemain(t *testing.T) {
	quiet, noisy := sample{Requests: 1}, sample{Requests: 2, Others: 0.5}
	s := series{Samples: []sample{quiet, noisy, quiet}}
	s.settle()
	if len(s.Samples) != 2 || s.Dropped != 1 || s.Quiet != 2 || s.Noisy {
		t.Errorf("one noisy round of three: %+v", s)
	}
	s = series{Samples: []sample{noisy, noisy, quiet}}
	s.settle()
	if len(s.Samples) != 3 || s.Quiet != 1 || !s.Noisy {
		t.Errorf("two noisy rounds of three: %+v", s)
	}
}

func TestATargetIsPassedMissedOrNotMeasured(t *testing.T) {
	results := func(abide, goproxy time.Duration) []result {
		peerSeries := func(peer string, cpu time.Duration) *series {
			return &series{Peer: peer, Samples: []sample{{Requests: 1, CPU: cpu}}}
		}
		r := result{scenario: scenario{name: "plain-1k"}}
		if abide > 0 {
			r.Series = append(r.Series, peerSeries("abide", abide))
		}
		r.Series = append(r.Series, peerSeries("goproxy", goproxy))
		return []result{r}
	}
	for _, c := range []struct {
		abide, goproxy time.Duration
		want           string
	}{{55, 100, "pass"}, {56, 100, "MISS"}, {0, 100, "not measured"}} {
		v := targets[0].judge(results(c.abide*time.Microsecond, c.goproxy*time.Microsecond))
		if v.says != c.want {
			t.Errorf("%d against %d: %s, want %s", c.abide, c.goproxy, v.says, c.want)
		}
	}
}

func TestWhatAQueueAddsIsJudgedByTheNoiseWithoutIt(t *testing.T) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.scenario == "isolation" })
	of := func(peer string, p99s ...time.Duration) *series {
		s := &series{Peer: peer}
		for _, d := range p99s {
			s.Samples = append(s.Samples, sample{P99: d * time.Microsecond})
		}
		return s
	}
	for _, c := range []struct {
		full []time.Duration
		want string
	}{
		{[]time.Duration{300, 340, 420}, "pass"},
		{[]time.Duration{300, 341, 420}, "MISS"}, // a noise of its own excuses nothing
		{[]time.Duration{200, 250, 300}, "pass"},
		{nil, "not measured"},
	} {
		r := result{scenario: scenario{name: "isolation"}, Series: []*series{of("abide", 290, 300, 330), of(besideQueue, c.full...)}}
		if v := targets[i].judge([]result{r}); v.says != c.want {
			t.Errorf("%v: %s, want %s", c.full, v.says, c.want)
		}
	}
}

func TestLimitsAreJudgedByWhatAbideCostsWithoutThem(t *testing.T) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.scenario == "limits-plain" })
	of := func(peer string, cpu time.Duration, noisy bool) *series {
		return &series{Peer: peer, Samples: []sample{{Requests: 1, CPU: cpu * time.Microsecond}}, Noisy: noisy}
	}
	for limited, want := range map[time.Duration]string{110: "pass (noisy)", 111: "MISS (noisy)", 90: "pass (noisy)"} {
		r := result{scenario: scenario{name: "limits-plain"}, Series: []*series{of("abide", 100, false), of(withLimits, limited, true)}}
		if v := targets[i].judge([]result{r}); v.says != want {
			t.Errorf("%d: %s, want %s", limited, v.says, want)
		}
	}
}

func TestEveryTargetNamesAScenarioAndAPeerThatTakesPart(t *testing.T) {
	for _, target := range targets {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == target.scenario })
		if i < 0 {
			t.Errorf("%s: no scenario %q", target.what, target.scenario)
			continue
		}
		if target.peer != "" && target.peerOf == nil && !slices.Contains(scenarios[i].peers, target.peer) {
			t.Errorf("%s: %q takes no part in %s", target.what, target.peer, target.scenario)
		}
	}
	for _, s := range scenarios {
		for _, name := range s.peers {
			if !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
				t.Errorf("%s: no peer %q", s.name, name)
			}
		}
	}
}

func TestOnlyPicksScenariosByTheirBeginning(t *testing.T) {
	some, err := chosen("plain,held-plain")
	if err != nil || len(some) != 3 {
		t.Errorf("got %d scenarios, %v", len(some), err)
	}
	if _, err := chosen("plain,nonesuch"); err == nil {
		t.Error("a scenario that does not exist was found")
	}
}

func TestTheGeneratorReadsAnswersHoweverTheyAreFramed(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       answer
		body       int64
	}{
		{"with a length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", answer{status: 200, length: 3}, 3},
		{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", answer{status: 200, length: -1, chunked: true}, 3},
		{"up to the end", "HTTP/1.0 200 OK\r\n\r\nabcd", answer{status: 200, length: -1, last: true}, 4},
		{"1.0 kept alive", "HTTP/1.0 502 Bad\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", answer{status: 502}, 0},
		{"closing", "HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 1\r\n\r\na", answer{status: 200, length: 1, last: true}, 1},
	} {
		r := bufio.NewReader(strings.NewReader(c.text))
		a, err := readAnswer(r)
		if err != nil || a != c.want {
			t.Errorf("%s: got %+v, %v", c.name, a, err)
			continue
		}
		if n, err := a.readBody(r, make([]byte, 2)); err != nil || n != c.body {
			t.Errorf("%s: a body of %d, %v", c.name, n, err)
		}
	}
	for _, text := range []string{"", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"} {
		if a, err := readAnswer(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q was read as %+v", text, a)
		}
	}
	r := bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"))
	a, err := readAnswer(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.readBody(r, make([]byte, 16)); err == nil {
		t.Error("a body that was cut short was taken for a whole one")
	}
}

func TestTheOriginKnowsWhenAConnectionEnds(t *testing.T) {
	for _, c := range []struct {
		head, path string
		last       bool
	}{
		{"GET /1024 HTTP/1.1\r\nHost: a\r\n", "1024", false},
		{"GET /1 HTTP/1.0\r\n", "1", true},
		{"GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n", "1", false},
		{"GET /hold HTTP/1.1\r\nconnection: close\r\n", "hold", true},
	} {
		if path, last := parseRequest([]byte(c.head)); string(path) != c.path || last != c.last {
			t.Errorf("%q: got %q, %v", c.head, path, last)
		}
	}
}
