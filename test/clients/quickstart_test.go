package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// exampleHost is the host of docs/quickstart.md. It allows five requests in five seconds.
const exampleHost = "api.example.com"

// quickStart is a section of docs/quickstart.md or docs/recipes.md: files, and commands with their output.
type quickStart struct {
	t        *testing.T
	name     string
	files    map[string]string
	commands []command

	dir string
	env []string
}

// command is a block of shell lines, and the block of text below it, "" for none.
type command struct{ script, output string }

// quickStarts are those of docs/quickstart.md.
func quickStarts(t *testing.T) map[string]*quickStart {
	t.Helper()
	return sectionsOf(t, "../../docs/quickstart.md")
}

// sectionsOf are the sections of a page. A block of text is an output, one of sh is commands,
// any other is a file if its first line is a comment with a name.
func sectionsOf(t *testing.T, path string) map[string]*quickStart {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*quickStart{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		q := &quickStart{t: t, name: name, files: map[string]string{}}
		for _, block := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(text, -1) {
			q.take(block[1], block[2])
		}
		all[name] = q
	}
	return all
}

func (q *quickStart) take(kind, text string) {
	q.t.Helper()
	switch kind {
	case "sh":
		q.commands = append(q.commands, command{script: text})
	case "text":
		if len(q.commands) == 0 {
			q.t.Fatalf("%s: an output without a command", q.name)
		}
		q.commands[len(q.commands)-1].output = text
	default:
		if name := regexp.MustCompile(`^(?:#|//) ([\w.]+)[,\n]`).FindStringSubmatch(text); name != nil {
			q.files[name[1]] = text
		}
	}
}

// prepare writes the files, and has abide find the origin in the place of the example's host.
func (q *quickStart) prepare(t *testing.T, o *origin) {
	t.Helper()
	q.t, q.dir = t, t.TempDir()
	for name, text := range q.files {
		q.write(name, text)
	}
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	q.link(modules, "node_modules")
	bin := filepath.Join(q.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	q.link(abideBinary, "bin/abide")
	q.link(python, "bin/python")
	q.env = append([]string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "LC_ALL=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", quickRace, "GOCACHE=" + goCache(t), "GOFLAGS=" + os.Getenv("GOFLAGS"), "GOTOOLCHAIN=local", "GOPROXY=off",
	}, o.environ()...)
}

func (q *quickStart) write(name, text string) {
	q.t.Helper()
	if err := os.WriteFile(filepath.Join(q.dir, name), []byte(text), 0o600); err != nil {
		q.t.Fatal(err)
	}
}

func (q *quickStart) link(from, to string) {
	q.t.Helper()
	if err := os.Symlink(from, filepath.Join(q.dir, to)); err != nil {
		q.t.Fatal(err)
	}
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// run runs a block of the page and compares what is printed. It returns standard error.
func (q *quickStart) run(item command) string {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), abideTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", item.script)
	together(cmd)
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Env = q.dir, q.env
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		q.t.Errorf("%s%v (%v)\n%s%s", item.script, err, ctx.Err(), &out, &log)
	}
	if out.String() != item.output {
		q.t.Errorf("%sprinted\n%s\nand not\n%s\n%s", item.script, &out, item.output, &log)
	}
	return log.String()
}

// underRun are the sections whose commands start an abide of their own.
var underRun = []string{"Scrapy", "requests", "httpx", "aiohttp", "Node: fetch and undici", "Node: axios", "Go", "Java", "curl", "Browsers"}

// TestTheQuickStartsWorkAsTheyStand runs the blocks of docs/quickstart.md against a site that
// allows five requests in five seconds.
func TestTheQuickStartsWorkAsTheyStand(t *testing.T) {
	t.Parallel()
	sections := quickStarts(t)
	for _, name := range underRun {
		q := sections[name]
		if q == nil || len(q.commands) != 1 || q.commands[0].output == "" {
			t.Fatalf("docs/quickstart.md has no section %s with a command and its output", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := startAnnouncingOrigin(t)
			q.prepare(t, o.origin)
			if name == "Browsers" {
				q.takeChromium()
			}
			q.run(q.commands[0])
			o.servedTwelve(t)
		})
	}
	for name := range sections {
		if !slices.Contains(underRun, name) && !slices.Contains([]string{"Beside a running abide", "Docker", "Kubernetes"}, name) {
			t.Errorf("no test runs the section %s", name)
		}
	}
}

// takeChromium has the commands use this machine's Chromium, and a Node that its drivers run on. The paths
// of sockets below a test's own directory would be too long for Chromium.
func (q *quickStart) takeChromium() {
	q.t.Helper()
	newest := onNode(&client{command: script(node, "")}, nodeVersions[len(nodeVersions)-1:])[0].command[0]
	path, err := filepath.Abs(newest)
	if err != nil {
		q.t.Fatal(err)
	}
	q.link(path, "bin/node")
	q.env = append(q.env, "CHROMIUM=/usr/bin/chromium", "TMPDIR="+os.TempDir())
}

// servedTwelve requires that the site was asked for the twelve items by https, and refused
// none of the requests.
func (a *announcingOrigin) servedTwelve(t *testing.T) {
	t.Helper()
	seen := slices.DeleteFunc(a.requests(), func(r seen) bool { return r.URI == "/favicon.ico" })
	for _, r := range seen {
		if r.Scheme != "https" || r.Host != exampleHost || !strings.HasPrefix(r.URI, "/items/") {
			t.Errorf("the site was asked for %s://%s%s", r.Scheme, r.Host, r.URI)
		}
	}
	if len(seen) != 12 || a.refused > 0 {
		t.Errorf("the site had %d requests, and refused %d", len(seen), a.refused)
	}
}

// TestTheQuickStartBesideARunningAbideWorksAsItStands starts the first block of its section in
// place of a terminal of its own, on an address where no other abide listens.
func TestTheQuickStartBesideARunningAbideWorksAsItStands(t *testing.T) {
	t.Parallel()
	q := quickStarts(t)["Beside a running abide"]
	if q == nil || len(q.commands) != 2 || q.commands[0].script != "abide serve\n" {
		t.Fatal("docs/quickstart.md does not start abide serve, and a crawler beside it")
	}
	o := startAnnouncingOrigin(t)
	q.prepare(t, o.origin)
	q.env = append(q.env, "ABIDE_LISTEN="+loopback+":0", "ABIDE_LISTEN_OPEN="+loopback+":0", "ABIDE_ADMIN="+freeAddress(t))
	q.serve()
	q.run(q.commands[1])
	o.servedTwelve(t)
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

// serve starts abide and waits until it has said where it is.
func (q *quickStart) serve() {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), abideTime)
	cmd := exec.CommandContext(ctx, abideBinary, "serve")
	cmd.Dir, cmd.Env = q.dir, q.env
	out := &banner{complete: make(chan struct{})}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &log
	if err := cmd.Start(); err != nil {
		q.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed at the end
	}()
	q.t.Cleanup(func() { stop(); <-ended })
	select {
	case <-out.complete:
	case <-ended:
		q.t.Fatalf("abide did not start: %s", &log)
	}
}

// TestTheQuickStartForDockerWorksAsItStands does what docker does with the example's Dockerfile,
// on this machine in the place of the base image.
func TestTheQuickStartForDockerWorksAsItStands(t *testing.T) {
	t.Parallel()
	all := quickStarts(t)
	q := all["Docker"]
	if q == nil || len(q.commands) != 2 {
		t.Fatal("docs/quickstart.md has no section on Docker with two blocks of commands")
	}
	q.files["crawl.py"] = all["requests"].files["crawl.py"]
	o := startAnnouncingOrigin(t)
	q.prepare(t, o.origin)
	q.run(command{script: q.entrypoint(), output: q.commands[0].output})
	o.servedTwelve(t)
	for _, line := range strings.Split(strings.TrimSpace(q.commands[0].script), "\n") {
		if !slices.Contains([]string{
			"docker build -t abide https://github.com/abide-proxy/abide.git", "docker build -t crawler .",
			"docker run --rm -v abide:/root/.local/state/abide crawler",
		}, line) {
			t.Errorf("this test does not know what %q does", line)
		}
	}
}

// entrypoint follows the Dockerfile and returns the command of its container.
func (q *quickStart) entrypoint() (script string) {
	q.t.Helper()
	image, err := os.ReadFile("../../Dockerfile")
	if err != nil || !bytes.Contains(image, []byte("\nCOPY --from=build /out/abide /abide\n")) {
		q.t.Fatalf("the image of abide does not have /abide: %v", err)
	}
	for _, line := range strings.Split(strings.TrimSpace(q.files["Dockerfile"]), "\n")[1:] {
		name, rest, _ := strings.Cut(line, " ")
		switch {
		case name == "ENTRYPOINT":
			var words []string
			if err := json.Unmarshal([]byte(rest), &words); err != nil {
				q.t.Fatal(err)
			}
			script = "exec " + strings.Join(words, " ")
		case slices.Contains([]string{
			"FROM python:3.13-slim", "RUN pip install requests", // this machine has both
			"COPY --from=abide /abide /usr/local/bin/abide", "COPY crawl.py .", // as prepare does
		}, line):
		default:
			q.t.Fatalf("this test does not know what %q does", line)
		}
	}
	if script == "" {
		q.t.Fatal("the Dockerfile has no ENTRYPOINT")
	}
	return script
}
