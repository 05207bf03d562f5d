package clients

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// asksNobody are the commands of a recipe that need no running abide, no site and no crawler.
var asksNobody = regexp.MustCompile(`^(cat|chmod|export|abide (check|plan|explain)) `)

// TestTheRecipesAreTakenByAbide reads each abide.yaml of docs/recipes.md with `abide check`, runs
// the commands that need nothing else, and asks for the help of the others.
func TestTheRecipesAreTakenByAbide(t *testing.T) {
	t.Parallel()
	recipes := sectionsOf(t, "../../docs/recipes.md")
	if len(recipes) < 7 {
		t.Errorf("docs/recipes.md has %d recipes, as far as this test sees", len(recipes))
	}
	for name, q := range recipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if q.files["abide.yaml"] == "" || !strings.Contains(q.scripts(), "abide check\n") {
				t.Fatal("there is no abide.yaml with abide check")
			}
			q.prepare(t, startOrigin(t))
			// These commands ask no site, and abide warns of variables that beat the recipe's file.
			q.env = slices.DeleteFunc(q.env, func(v string) bool { return strings.HasPrefix(v, "ABIDE_EGRESS_") })
			q.env = append(q.env, "STORE_SECRET=a", "PROXY_SECRET=b")
			q.write("company.pem", string(originCA.PEM()))
			for _, one := range q.commands {
				if q.offline(one.script) {
					q.succeeds(one.script)
				}
			}
			for _, line := range regexp.MustCompile(`\babide [^\n|<]*`).FindAllString(q.scripts(), -1) {
				if out, ok := understood(t, line); !ok {
					t.Errorf("there is no %s:\n%s", line, out)
				}
			}
		})
	}
}

func (q *quickStart) scripts() (all string) {
	for _, one := range q.commands {
		all += one.script
	}
	return all
}

// offline tells whether all lines of a block ask nobody. What a file is made of is no line.
func (q *quickStart) offline(script string) bool {
	script = regexp.MustCompile(`(?s)<<'END'\n.*?END\n`).ReplaceAllString(script, "\n")
	for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
		if !asksNobody.MatchString(line + " ") {
			return false
		}
	}
	return true
}

// succeeds runs a block, which must not warn of anything.
func (q *quickStart) succeeds(script string) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), abideTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	together(cmd)
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Env = q.dir, q.env
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "warning") {
		q.t.Errorf("%s%v\n%s", script, err, out)
	}
}

// understood tells whether a command of abide and its flags exist.
func understood(t *testing.T, line string) (out []byte, ok bool) {
	t.Helper()
	line, _, _ = strings.Cut(line, " -- ")
	words := strings.Fields(line)
	cmd := exec.CommandContext(t.Context(), abideBinary, append(words[1:], "--help")...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	// The help of a command that there is not is that of abide itself.
	return out, err == nil && strings.Contains(string(out), "\n  abide "+words[1])
}

func TestACommandThatThereIsNotIsFound(t *testing.T) {
	t.Parallel()
	for line, exists := range map[string]bool{
		"abide plan --requests 5": true, "abide run -- another --flag": true,
		"abide no-such-command": false, "abide plan --no-such-flag": false,
	} {
		if out, ok := understood(t, line); ok != exists {
			t.Errorf("%s: %t\n%s", line, ok, out)
		}
	}
}

// TestTheExampleOfLearningPrintsWhatItSays gives abide learn the response of docs/learning.md.
func TestTheExampleOfLearningPrintsWhatItSays(t *testing.T) {
	t.Parallel()
	q := sectionsOf(t, "../../docs/learning.md")["Try it"]
	if q == nil || len(q.commands) != 1 {
		t.Fatal("docs/learning.md has no example")
	}
	q.prepare(t, startOrigin(t))
	q.run(q.commands[0])
}
