package clients

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// demo is the example of README.md: the crawler, what it prints alone and under abide run, and
// the summary of abide run.
type demo struct {
	crawler, alone, held string
	summary              []string
}

func readDemo(t *testing.T) demo {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```python\n(# crawl.py.*?)```\n\n```console\n\\$ python crawl.py\n(.*?\n)\\$ abide run -- python crawl.py\n(.*?\n)(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("README.md has no crawl.py that is run alone and under abide run")
	}
	return demo{
		crawler: string(found[1]), alone: string(found[2]), held: string(found[3]),
		summary: withoutNumbers(string(found[4])),
	}
}

// withoutNumbers are the lines of abide's summary, with # in the place of each number, since
// times differ, and without the lines of its log.
func withoutNumbers(summary string) (lines []string) {
	for _, line := range strings.Split(strings.TrimSpace(summary), "\n") {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, regexp.MustCompile(`([0-9.]+(ms|[hms])?)+( requests?)?`).ReplaceAllString(line, "#"))
		}
	}
	return lines
}

// TestTheDemoOfTheReadmeIsTrue runs it twice: without limits kept, at a site that begins no
// second window, and under abide run.
func TestTheDemoOfTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	d := readDemo(t)
	q := &quickStart{files: map[string]string{"crawl.py": d.crawler}}
	q.prepare(t, startAnnouncingOriginOf(t, time.Hour).origin)
	q.env = append(q.env, "ABIDE_MODE=observe")
	q.run(command{script: "abide run --quiet -- python crawl.py", output: d.alone})

	o := startAnnouncingOrigin(t)
	q.prepare(t, o.origin)
	got := withoutNumbers(q.run(command{script: "abide run -- python crawl.py", output: d.held}))
	if len(got) == 0 || got[0] != d.summary[0] {
		t.Errorf("the summary begins with %q and not with %q", got, d.summary[0])
	}
	for _, line := range got {
		if !slices.Contains(d.summary, line) {
			t.Errorf("the summary of README.md does not have %q", line)
		}
	}
	if o.refused > 0 {
		t.Errorf("the site refused %d requests", o.refused)
	}
}
