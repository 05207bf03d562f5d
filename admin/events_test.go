package admin

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// fillEvents has as many read events of a listener as may. The function that it returns has
// them leave.
func fillEvents(b *bed) (leave func()) {
	ctx, cancel := context.WithCancel(context.Background())
	for range maxReaders {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.address+"/api/v1/events", nil)
		if err != nil {
			b.t.Fatal(err)
		}
		answer, err := b.client.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.t.Fatal(err, answer)
		}
		b.t.Cleanup(func() { answer.Body.Close() })
	}
	return cancel
}

// pipes is a listener in memory, for fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// eventBed is a server of events in fake time.
type eventBed struct {
	t      *testing.T
	events *events
	made   atomic.Int64 // snapshots
	server *http.Server
	pipes  *pipes
}

// inFakeTime runs a test of events. Each snapshot has another version, which is its number.
func inFakeTime(t *testing.T, test func(*testing.T, *eventBed)) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.Defaults()
		b := &eventBed{t: t, pipes: &pipes{make(chan net.Conn), make(chan struct{})}}
		b.events = &events{policy: func() *policy.Policy { return p }, facts: func(context.Context, time.Time, bool) *page.Facts {
			return &page.Facts{Process: status.Process{Version: fmt.Sprint("snapshot ", b.made.Add(1))}}
		}}
		b.server = Server(endpoint(b.events.stream))
		go func() { _ = b.server.Serve(b.pipes) }()
		test(t, b)
		b.server.Close()
		synctest.Wait()
		if b.readers() != 0 {
			t.Errorf("%d readers are left", b.readers())
		}
	})
}

// readers is how many read events.
func (b *eventBed) readers() int {
	return int(b.events.readers.Load())
}

// ask opens a connection and asks for events.
func (b *eventBed) ask(query string, headers ...string) net.Conn {
	b.t.Helper()
	ours, theirs := net.Pipe()
	b.pipes.conns <- theirs
	if _, err := io.WriteString(ours, "GET /api/v1/events"+query+" HTTP/1.1\r\nHost: x\r\n"+strings.Join(headers, "")+"\r\n"); err != nil {
		b.t.Fatal(err)
	}
	return ours
}

// read begins to read the answer to ask.
func (b *eventBed) read(conn net.Conn) (*http.Response, *bufio.Scanner) {
	b.t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return answer, lines
}

// nextVersion is the number of the next snapshot, 0 at the end.
func nextVersion(lines *bufio.Scanner) (n int) {
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var part page.Part
		if !ok || json.Unmarshal([]byte(data), &part) != nil || part.Name != "state" {
			continue
		}
		_, rest, _ := strings.Cut(part.HTML, "snapshot ")
		fmt.Sscan(rest, &n)
		return n
	}
	return 0
}

func TestEventsGoOnForLongerThanOtherAnswersMayTake(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		began := time.Now()
		answer, lines := b.read(b.ask("?count=600"))
		if kind := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("%d %s", answer.StatusCode, kind)
		}
		n := 0
		for last := 0; ; n++ {
			version := nextVersion(lines)
			if version == 0 {
				break
			}
			if version <= last {
				t.Errorf("snapshot %d after %d", version, last)
			}
			last = version
		}
		if took := time.Since(began); n != 600 || took < 599*time.Second || took > 601*time.Second {
			t.Errorf("%d snapshots in %v", n, took)
		}
	})
}

func TestAPartThatDoesNotChangeIsSentOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		answer, _ := b.read(b.ask("?count=5"))
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"event: now\n": 5, `{"id":"state",`: 5, `{"id":"sites",`: 1, `{"id":"queue",`: 1} {
			if n := strings.Count(string(text), name); n != want {
				t.Errorf("%s is there %d times, not %d", name, n, want)
			}
		}
	})
}

func TestAReaderThatReadsLateGetsTheNewestSnapshot(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		_, lines := b.read(b.ask(""))
		first := nextVersion(lines)
		_, others := b.read(b.ask(""))
		go func() { _, _ = io.Copy(io.Discard, lineReader{others}) }()
		time.Sleep(8 * time.Second) // the second waits to be written
		nextVersion(lines)
		synctest.Wait()
		if third := nextVersion(lines); third < first+6 {
			t.Errorf("after %d and 8 seconds comes %d", first, third)
		}
	})
}

func TestAThousandReadersThatDoNotReadMakeNothingGrow(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		var conns []net.Conn
		for range maxReaders {
			conns = append(conns, b.ask(""))
		}
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 1000 - maxReaders {
			conn := b.ask("")
			if answer, _ := b.read(conn); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
				t.Fatalf("%d without room", answer.StatusCode)
			}
			conn.Close()
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before+(1000-maxReaders)/2 || b.readers() != maxReaders { // other tests have goroutines, too
			t.Errorf("%d goroutines instead of %d, %d readers", after, before, b.readers())
		}
		time.Sleep(eventTimeout + 2*eventEvery)
		synctest.Wait()
		if n := b.readers(); n != 0 {
			t.Errorf("%d who do not read are still readers", n)
		}
		made := b.made.Load()
		time.Sleep(time.Minute)
		if b.made.Load() != made {
			t.Error("snapshots are made that nobody reads")
		}
		answer, lines := b.read(b.ask("?count=1"))
		if answer.StatusCode != http.StatusOK || nextVersion(lines) == 0 {
			t.Errorf("%d after the others have left", answer.StatusCode)
		}
		for _, one := range conns {
			one.Close()
		}
	})
}

func TestOneSnapshotIsMadeForAllReaders(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		for range 10 {
			_, lines := b.read(b.ask(""))
			go func() { _, _ = io.Copy(io.Discard, lineReader{lines}) }()
		}
		synctest.Wait()
		made := b.made.Load()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := b.made.Load() - made; n != 20 {
			t.Errorf("%d snapshots in 20 seconds", n)
		}
	})
}

// lineReader reads lines until the end.
type lineReader struct{ lines *bufio.Scanner }

func (r lineReader) Read([]byte) (int, error) {
	if r.lines.Scan() {
		return 0, nil
	}
	return 0, io.EOF
}

func TestAShutdownEndsStreams(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		_, lines := b.read(b.ask(""))
		ended := make(chan bool)
		go func() {
			for nextVersion(lines) != 0 {
			}
			close(ended)
		}()
		time.Sleep(90 * time.Second)
		began := time.Now()
		if err := b.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestEventsWithAWrongQueryAreRefused(t *testing.T) {
	b := newBed(t, nil)
	for _, query := range []string{"?count=0", "?count=x", "?count=-1", "?sites=x", "?count=1&count=2", "?%zz", "?site=" + strings.Repeat("x", maxQuery+1)} {
		if r := b.get("/api/v1/events" + query); r.StatusCode != 400 || !json.Valid([]byte(r.body)) {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
}

func TestEventsAreAboutTheSitesThatAreAskedFor(t *testing.T) {
	b := newBed(t, nil)
	for _, one := range append(hostile, "api.test", "b.test") {
		b.metrics.Site(one).Request("GET", 200, 1)
	}
	all, some := b.get("/api/v1/events?count=1").body, b.get("/api/v1/events?count=1&site=API").body
	if !strings.Contains(all, "api.test") || !strings.Contains(all, "b.test") || !strings.Contains(some, "api.test") || strings.Contains(some, "b.test") {
		t.Errorf("all:\n%s\nsome:\n%s", all, some)
	}
	if strings.ContainsAny(all, "<>") {
		t.Error("the events have tags outside of JSON")
	}
	var now status.Live
	_, rest, _ := strings.Cut(all, "event: now\ndata: ")
	line, _, _ := strings.Cut(rest, "\n")
	if err := json.Unmarshal([]byte(line), &now); err != nil || time.Since(now.Time) > time.Hour {
		t.Errorf("%v: %s", err, line)
	}
}

// TestEventsAreCompressedForWhoAcceptsThat: each event comes at once, whole, and what is sent again costs little.
func TestEventsAreCompressedForWhoAcceptsThat(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *eventBed) {
		conn := b.ask("?count=3", "Accept-Encoding: br, gzip\r\n")
		defer conn.Close()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.Header.Get("Content-Encoding") != "gzip" || answer.Header.Get("Vary") != "Accept-Encoding" {
			t.Fatal(err, answer)
		}
		text, err := gzip.NewReader(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(text)
		for n := 1; n <= 3; n++ {
			began, found := time.Now(), false
			for !found && lines.Scan() {
				found = strings.Contains(lines.Text(), fmt.Sprint("snapshot ", n))
			}
			if !found || time.Since(began) > eventEvery {
				t.Errorf("snapshot %d: %v after %v, %v", n, found, time.Since(began), lines.Err())
			}
		}
		for lines.Scan() {
		}
		if err := lines.Err(); err != nil { // the end of what is compressed is there
			t.Error(err)
		}
	})
}
