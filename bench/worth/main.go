// Command worth crawls the simulated services once with each mechanism of the search for
// hidden limits left out, and prints a table: what a mechanism is worth is the difference to
// the first row. The sources stay as they are: the compiler gets changed copies.
//
//	go -C bench run ./worth -only 'outage|idle'
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mechanism is a part of the search that can be left out, by other text in one file of sites/ledger.
type mechanism struct{ name, says, file, text, without string }

var mechanisms = []mechanism{
	{"", "all mechanisms", "", "", ""},
	{"guess", "refusals that may be failures of the server set a rate that doubles soon", "hidden_rate.go", "case s.rate == 0 && p.stop.failure:", "case s.rate < 0 && p.stop.failure:"},
	{"compare", "many requests before the first refusal: is a lower rate refused less often?", "hidden_rate.go", "case s.rate == 0 && !p.stop.probed && p.noise.possible()", "case s.rate < 0 && !p.stop.probed && p.noise.possible()"},
	{"against", "a refusal at a rate that no limit refuses speaks against a limit", "noise.go", "n.head, n.against, n.chance, n.passed, n.until = sent, slow, 1,", "n.head, n.against, n.chance, n.passed, n.until = sent, slow && n.row < 0, 1,"},
	{"row", "refusals that follow each other too often are those of a limit", "noise.go", "n.weigh(min(n.part()*ways, 1), 1-min(pass, 1/float64(n.row-1)))", "n.row += 0"},
	{"counted", "equal numbers between refusals speak for a limit, and differing ones against it", "noise.go", "if steady && n.all.refused > 0 {", "if steady && n.all.refused < 0 {"},
	{"scattered", "the first refusals that may come at random are forgiven", "hidden_rate.go", "p.noise.scattered(p.search.accepted()) &&", "p.noise.row < 0 &&"},
	{"again", "a refusal like others before that were no limit is forgiven", "hidden_rate.go", "&& !r.Again", ""},
	{"outage", "after failures that last, the rate stays", "hidden_rate.go", "case s.rate > 0 && (innocent ||", "case s.rate < 0 && (innocent ||"},
	{"in flight", "more in flight than ever before may be the cause", "hidden_rate.go", "flight.level > 0 && until-v < shortestNamed && p.atOnce.suspects(level)", "level < 0"},
	{"held for long", "a refused try goes back to the rate that held for long", "rate_search.go", "case s.trying && s.firm > 0:", "case s.trying && s.firm < 0:"},
	{"idle", "time without requests is no time that a limit needs", "episodes.go", "if went-could < leastIdle", "if went >= 0 || went-could < leastIdle"},
	{"trial", "a named window: three times as many are tried", "hidden_window.go", "if w.Held >= 1 && w.trial == untried || w.trial == tried &&", "if w.Held < 0 && w.trial == tried &&"},
	{"sooner", "a named window: that is tried in the second one, if the first was full early", "hidden_window.go", "w.quick = 2*", "w.quick = w.Limit < 0 && 2*"},
	{"early", "one refusal before a known window can be full lowers the rate a little", "rate_search.go", "case early, vague && stop.single:", "case early && s.rate < 0, vague && stop.single:"},
	{"shorter", "a named window: of whole seconds a shorter length is tried", "hidden_window.go", "w.Held >= 2 && w.Step > 0", "w.Held < 0 && w.Step > 0"},
	{"rolling", "a named window: it rolls, so requests of the one before count", "hidden_window.go", "w.late = w.late || rolling ||", "w.late = rolling && w.Limit < 0 ||"},
	{"several", "a named window: a longer one with fewer requests shows several limits", "hidden_window.go", "return w.Limit > 0 && !w.late &&", "return w.Limit < 0 && !w.late &&"},
}

func main() {
	only := flag.String("only", "", "`pattern` of the names of mechanisms")
	tests := flag.Bool("tests", true, "run the tests that have goals, too")
	flag.Parse()
	if err := run(*only, *tests); err != nil {
		fmt.Fprintln(os.Stderr, "worth:", err)
		os.Exit(1)
	}
}

func run(only string, tests bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "worth")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("| without | which is | one token: × ideal | refused | 3 tokens: × ideal | refused | beside clients that pause: ≥ 0.8 | mean | least | tests that fail |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range mechanisms {
		m := &mechanisms[i]
		if m.name != "" && !pattern.MatchString(m.name) {
			continue
		}
		row, err := m.measure(dir, tests)
		if err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(m.name, "all"), err)
		}
		fmt.Println(row)
	}
	return nil
}

// overlay writes the changed file and returns the option of the compiler that uses it.
func (m *mechanism) overlay(dir string) (string, error) {
	replace := map[string]string{}
	if m.file != "" {
		text, path, err := m.changed()
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, m.file)
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return "", err
		}
		replace[path] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return "-overlay=" + file, os.WriteFile(file, list, 0o600)
}

// changed returns the text and the path of the file without the mechanism.
func (m *mechanism) changed() (text []byte, path string, err error) {
	if path, err = filepath.Abs(filepath.Join("..", "sites", "ledger", m.file)); err != nil {
		return nil, "", err
	}
	if text, err = os.ReadFile(path); err != nil {
		return nil, "", err
	}
	if n := bytes.Count(text, []byte(m.text)); n != 1 {
		return nil, "", fmt.Errorf("%s has %q %d times, and not once: write here how the mechanism is left out now", m.file, m.text, n)
	}
	return bytes.Replace(text, []byte(m.text), []byte(m.without), 1), path, nil
}

// measure crawls without the mechanism, and returns a row of the table.
func (m *mechanism) measure(dir string, tests bool) (string, error) {
	option, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "services")
	if _, err := output("go", "build", option, "-o", binary, "./services"); err != nil {
		return "", err
	}
	several, err := output(binary, "-composites", "320")
	if err != nil {
		return "", err
	}
	random, err := output(binary, "-noise")
	if err != nil {
		return "", err
	}
	failed := "not run"
	if tests {
		if failed, err = failing(option); err != nil {
			return "", err
		}
	}
	all := rows(several, "all")
	if len(all) != 2 {
		return "", fmt.Errorf("the table of composites has no row of one token and of 3")
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", cmp.Or(m.name, "nothing"), m.says, all[0][3], all[0][4], all[1][3], all[1][4], speeds(random), failed), nil
}

// rows returns the cells of the rows of a table whose first cell is a name; "": all.
func rows(text []byte, name string) (list [][]string) {
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 && (name == "" || cells[0] == name) {
			list = append(list, cells)
		}
	}
	return list
}

// speeds sums up the last column of tables of speeds: the number of those of 0.8 or more, the mean and the least.
func speeds(text []byte) string {
	var all []float64
	for _, cells := range rows(text, "") {
		if v, err := strconv.ParseFloat(cells[len(cells)-1], 64); err == nil {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return "none | |"
	}
	enough, sum := 0, 0.0
	for _, v := range all {
		if sum += v; v >= 0.8 {
			enough++
		}
	}
	return fmt.Sprintf("%d of %d | %.3f | %.2f", enough, len(all), sum/float64(len(all)), slices.Min(all))
}

// failing returns the names of the tests that fail.
func failing(option string) (string, error) {
	var names []string
	for dir, tests := range map[string]string{".": "./services", "..": "./sites/ledger"} {
		text, err := output("go", "-C", dir, "test", option, "-json", tests)
		if err != nil && len(text) == 0 {
			return "", err
		}
		for line := range bytes.Lines(text) {
			var e struct{ Action, Test string }
			if json.Unmarshal(line, &e) == nil && e.Action == "fail" && e.Test != "" && !strings.Contains(e.Test, "/") {
				names = append(names, e.Test)
			}
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "none"), nil
}

// output returns the standard output of a program.
func output(name string, args ...string) ([]byte, error) {
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	return c.Output()
}
