package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/redact"
)

var end = time.Date(2026, time.March, 1, 12, 0, 0, 500, time.UTC)

func lineOf(path string) Line {
	return Line{
		End: end, Client: "news", Priority: 2, Method: "GET", Origin: "https://api.test:443", Path: path, Site: "api.test", Status: 200,
		Took: 1500*time.Millisecond + 250*time.Microsecond, Wait: time.Second, Limit: "5 requests per 1s", Attempts: 2, Refusals: 1, Token: "alice", Received: 8, Sent: 3,
	}
}

// started is a Log that runs, and a function that ends it and returns what its own log says.
func started(t *testing.T) (*Log, func() string) {
	var said bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&said)
	l := New(logger)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	ended := sync.OnceFunc(func() { stop(); <-done })
	t.Cleanup(ended)
	return l, func() string { ended(); return said.String() }
}

func TestALineHasAllFields(t *testing.T) {
	line := lineOf("/2/tweets")
	want := `{"time":"2026-03-01T12:00:00.0000005Z","msg":"request","client":"news","priority":2,"method":"GET","url":"https://api.test:443/2/tweets",` +
		`"site":"api.test","status":200,"ms":1500.25,"wait":1,"limit":"5 requests per 1s","attempts":2,"refusals":1,"token":"alice","received":8,"sent":3}` + "\n"
	if got := string(line.json()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	line.Limit, line.Token, line.Reason = "", "", "draining"
	if got := string(line.json()); !strings.Contains(got, `"refusals":1,"reason":"draining","received":8`) {
		t.Error(got)
	}
	if got := string(line.text()); !strings.Contains(got, " refusals=1 reason=draining received=8") {
		t.Error(got)
	}
	line = lineOf("/2/tweets")
	want = `2026-03-01T12:00:00.0000005Z client=news priority=2 method=GET url=https://api.test:443/2/tweets site=api.test status=200 ` +
		`ms=1500.25 wait=1 limit="5 requests per 1s" attempts=2 refusals=1 token=alice received=8 sent=3` + "\n"
	if got := string(line.text()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestALineIsOneLineWhateverItSays(t *testing.T) {
	line := lineOf("/")
	line.Client, line.Limit, line.Token = "a\nb \x1b[31m=\"", "", "\u2028\xff"
	for _, text := range []string{string(line.json()), string(line.text())} {
		if strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\u2028") {
			t.Errorf("%q", text)
		}
	}
}

func TestNoSecretIsInALine(t *testing.T) {
	line := lineOf("/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe/short-secret")
	line.Secret = redact.New("short-secret")
	line.Own = "Bearer getMeToo"
	line.Path += "/getMeToo"
	for _, text := range []string{string(line.json()), string(line.text())} {
		if strings.Contains(text, "AAHdq") || strings.Contains(text, "short-secret") || !strings.Contains(text, "/[redacted]/getMe/[redacted]/[redacted]") || strings.Contains(text, "getMeToo") {
			t.Error(text)
		}
	}
}

func TestAFileIsAppendedToAndReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, ended := started(t)
	to := Target{To: path}
	l.Add(lineOf("/1"), to)
	l.Add(lineOf("/nowhere"), Target{})
	for len(l.lines) > 0 || !strings.Contains(read(t, path), "/1") { // it is flushed without being asked
		runtime.Gosched()
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen.Send()
	for len(l.Reopen) > 0 {
		runtime.Gosched()
	}
	l.Add(lineOf("/2"), to)
	l.Add(lineOf("/3"), Target{To: path, Text: true})
	said := ended()
	if old := read(t, path+".1"); !strings.HasPrefix(old, "before\n{") || strings.Count(old, "\n") != 2 {
		t.Error(old)
	}
	if fresh := read(t, path); !strings.Contains(fresh, `"url":"https://api.test:443/2"`) || !strings.Contains(fresh, "url=https://api.test:443/3") || strings.Count(fresh, "\n") != 2 {
		t.Error(fresh)
	}
	if said != "" || l.Dropped.Load() != 0 {
		t.Errorf("%d dropped: %s", l.Dropped.Load(), said)
	}
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLinesOfAFullQueueAreCounted(t *testing.T) {
	l := New(logrus.New())
	for range queued + 7 {
		l.Add(lineOf("/"), Target{To: Stdout})
	}
	if l.Dropped.Load() != 7 {
		t.Error(l.Dropped.Load())
	}
}

func TestAFileThatCannotBeWrittenIsSaidOnceAndItsLinesAreCounted(t *testing.T) {
	l, ended := started(t)
	path := filepath.Join(t.TempDir(), "no", "directory")
	const n = 5
	for range n {
		l.Add(lineOf("/"), Target{To: path})
	}
	said := ended()
	if strings.Count(said, "cannot be written") != 1 || !strings.Contains(said, path) || l.Dropped.Load() != n {
		t.Errorf("%d dropped: %s", l.Dropped.Load(), said)
	}
	if err := Inspect(path); err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Error(err)
	}
	if err := Inspect(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
}

func TestWithTheLogLinesAreEntriesOfIt(t *testing.T) {
	l, ended := started(t)
	l.Add(lineOf("/x"), Target{To: WithLog})
	said := ended()
	for _, want := range []string{`msg=request`, `client=news`, `url="https://api.test:443/x"`, `wait=1`, `limit="5 requests per 1s"`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
}

func TestEveryLineOfManyWritersIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	l, ended := started(t)
	const writers, each = 8, 400
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range each {
				l.Add(lineOf(fmt.Sprintf("/%d/%d", n, i)), Target{To: path})
			}
		})
	}
	all.Wait()
	ended()
	seen := 0
	in := bufio.NewScanner(strings.NewReader(read(t, path)))
	for in.Scan() {
		var item map[string]any
		if err := json.Unmarshal(in.Bytes(), &item); err != nil {
			t.Fatal(err, in.Text())
		}
		seen++
	}
	if uint64(seen)+l.Dropped.Load() != writers*each {
		t.Errorf("%d lines, %d dropped", seen, l.Dropped.Load())
	}
}

// full is a disk that has room for half of what is written.
type full struct{ *os.File }

func (f full) Write(p []byte) (int, error) {
	n, _ := f.File.Write(p[:len(p)/2])
	return n, io.ErrShortWrite
}

func TestALineThatDidNotFitIsNotLeftInPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	w := &writer{log: New(logger)}
	line := func(name string) { w.write(&entry{lineOf(name), Target{To: path}}) }
	line("/1")
	w.flush()
	w.out = bufio.NewWriter(full{w.file})
	line("/2")
	w.flush()
	if old := read(t, path); !strings.Contains(old, "/1") || strings.Count(old, "\n") != 1 || !strings.HasSuffix(old, "}\n") || w.log.Dropped.Load() != 1 {
		t.Errorf("%d dropped: %q", w.log.Dropped.Load(), old)
	}
	moved := os.Rename(path, path+".1")
	w.close()
	line("/3")
	w.close()
	if fresh := read(t, path); moved != nil || !strings.HasPrefix(fresh, "{") || !strings.Contains(fresh, "/3") {
		t.Errorf("%v %q", moved, fresh)
	}
}
