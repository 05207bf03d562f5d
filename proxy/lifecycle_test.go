package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStoppingFinishesWhatIsInFlight(t *testing.T) {
	for _, a := range protocolClients {
		t.Run(a.name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all", "timeouts: {drain: 10s}")
			arrived, proceed := make(chan struct{}), make(chan struct{})
			b.handle(func(w http.ResponseWriter, _ *http.Request) {
				close(arrived)
				<-proceed
				io.WriteString(w, "whole")
			})
			type result struct {
				body string
				err  error
			}
			got := make(chan result, 1)
			go func() {
				_, body, err := a.fetch(b, "GET", "/", nil)
				got <- result{body, err}
			}()
			<-arrived
			stopped := make(chan struct{})
			go func() { b.stop(); close(stopped) }()
			eventually(t, 20*time.Second, "no new clients", func() bool {
				conn, err := net.Dial("tcp", b.addr)
				if err == nil {
					conn.Close()
				}
				return err != nil
			})
			close(proceed)
			if r := <-got; r.err != nil || r.body != "whole" {
				t.Errorf("%q, %v", r.body, r.err)
			}
			select {
			case <-stopped:
			case <-time.After(5 * time.Minute):
				t.Error("it did not stop when all was done")
			}
		})
	}
}

// noLimits is a configuration in which requests do not wait for the first response of a
// site.
const noLimits = "defaults: {limits: [], learn: false}"

func TestStoppingEndsWithinTheDrainTime(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "timeouts: {drain: 1s}", noLimits)
	b.handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	endlessly, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer endlessly.Close()
	var talking sync.WaitGroup
	talking.Go(func() {
		c, err := endlessly.Accept()
		if err == nil {
			writeSlowly(t.Context(), c, 20*time.Millisecond)
			c.Close()
		}
	})
	for _, w := range rawPaths {
		fmt.Fprintf(b.open(w), "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/"))
	}
	plainTunnel := newTestProxy(t, "timeouts: {drain: 1s}")
	tunnel := plainTunnel.connect(endlessly.Addr().String())
	go io.Copy(io.Discard, tunnel)
	eventually(t, 20*time.Second, "the requests", func() bool { return b.served.Load() == 3 })
	began := time.Now()
	var both sync.WaitGroup
	both.Go(b.stop)
	both.Go(plainTunnel.stop)
	both.Wait()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	talking.Wait()
}

func TestWhatHasNoAnswerAtTheEndOfTheDrainIsTold(t *testing.T) {
	for i, a := range protocolClients {
		t.Run(a.name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all", "timeouts: {drain: 2s}", "defaults: {limits: [{concurrency: 2}], learn: false}", "log: {access: on}")
			b.handle(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/stream" {
					io.WriteString(w, "begun")
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			})
			stream, cut := make(chan struct{}), make(chan error, 1)
			go func() {
				resp, err := b.client(a.h2).Get(a.base + "/stream")
				close(stream)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				cut <- err
			}()
			<-stream
			path := rawPaths[i]
			slow := b.open(path)
			fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: api.test\r\nContent-Length: 8\r\n\r\nhalf", path.line("/slow"))
			eventually(t, 20*time.Second, "half of a body", func() bool { return b.server.forwarder.replayBytes.Load() > 0 })
			unfinished, upload := io.Pipe()
			defer upload.Close()
			go upload.Write([]byte("half"))
			results := make(chan string, 4)
			for i, r := range []struct {
				method, path string
				body         io.Reader
			}{{"GET", "/first", nil}, {"GET", "/behind", nil}, {"GET", "/behind", nil}, {"POST", "/upload", unfinished}} {
				go func() {
					resp, body, err := a.fetch(b, r.method, r.path, r.body)
					if err != nil {
						results <- fmt.Sprint(r.method, r.path, err)
						return
					}
					results <- fmt.Sprint(resp.StatusCode, resp.Header.Get("Retry-After") != "", strings.Contains(body, "urn:abide:draining"))
				}()
				if i == 0 {
					eventually(t, 20*time.Second, "the first", func() bool { return b.served.Load() == 2 })
				}
			}
			eventually(t, 20*time.Second, "the requests", func() bool { _, held := b.server.Gate().Len(); return held == 3 })
			b.stop()
			resp, body := readResponse(t, slow, "POST")
			if resp.StatusCode != 503 || !strings.Contains(body, "urn:abide:draining") {
				t.Errorf("an unfinished request got %d %s", resp.StatusCode, body)
			}
			for range 4 {
				if got := <-results; got != "503 true true" {
					t.Errorf("a request got %s", got)
				}
			}
			if err := <-cut; err == nil {
				t.Error("a stream that was cut ended as if it were whole")
			}
			lines := b.log.String()
			if n := strings.Count(lines, `reason=draining`); n < 5 || strings.Contains(lines, "status=499") {
				t.Errorf("%d lines blame the stop:\n%s", n, lines)
			}
		})
	}
}

func TestReloadKeepsConnectionsAndAppliesTheRest(t *testing.T) {
	b := newTestProxy(t, "intercept: none")
	conn := b.dial()
	ask := "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"
	if resp, _ := sendRaw(t, conn, ask); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	old := b.server.Policy()
	next := *old
	next.Intercept.Mode = "all"
	must(t, b.server.Reload(&next))
	if resp, _ := sendRaw(t, conn, ask); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	if n := b.dialed.Load(); n != 1 {
		t.Errorf("a reload that does not concern upstreams left %d connections", n)
	}
	if resp, _, err := protocolClients[1].fetch(b, "GET", "/", nil); err != nil || resp.TLS.PeerCertificates[0].Issuer.String() == "" || resp.StatusCode != 200 {
		t.Errorf("after the reload: %v", err)
	}
	changed := next
	changed.Timeouts.Answer = time.Second
	must(t, b.server.Reload(&changed))
	if resp, _ := sendRaw(t, conn, ask); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	broken := changed
	broken.Egress.Roots = "/nonexistent/roots.pem"
	if b.server.Reload(&broken) == nil {
		t.Error("a policy whose roots cannot be read was taken")
	}
	if b.server.Policy().Timeouts.Answer != time.Second {
		t.Error("the last good policy is gone")
	}
	if resp, _ := sendRaw(t, conn, ask); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
}

func TestGoroutinesReturnToTheBaselineWhenHeldClientsLeave(t *testing.T) {
	b := newTestProxy(t, "intercept: all", noLimits)
	b.handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	const idle = 32 // pooled connections to the origin, both ends of which live here
	base := runtime.NumGoroutine()
	for _, w := range rawPaths {
		t.Run(string(w), func(t *testing.T) {
			const held = 300
			before := b.served.Load()
			conns := make([]net.Conn, held)
			for i := range conns {
				conns[i] = b.open(w)
				fmt.Fprintf(conns[i], "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", w.line("/"))
			}
			eventually(t, 20*time.Second, "all held", func() bool { return b.served.Load() == before+held })
			for _, c := range conns {
				c.Close()
			}
			eventually(t, 20*time.Second, "goroutines back to the baseline", func() bool { return runtime.NumGoroutine() <= base+idle })
		})
	}
}

func TestBytesAreCountedPerSiteWhileTheyPass(t *testing.T) {
	const piece = 1 << 20
	next := make(chan struct{})
	serve := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(2*piece))
		io.CopyN(w, endless{}, piece)
		w.(http.Flusher).Flush()
		<-next
		io.CopyN(w, endless{}, piece)
	}
	type route struct {
		name string
		protocolClient
		intercept string
	}
	for _, r := range []route{
		{"plain", protocolClients[0], "none"}, {"intercepted h1", protocolClients[1], "all"}, {"intercepted h2", protocolClients[2], "all"}, {"tunnel", protocolClients[1], "none"},
	} {
		t.Run(r.name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: "+r.intercept)
			b.handle(serve)
			count := func() (in, out uint64) {
				for _, s := range b.metrics.Sites() {
					if s.Name == host {
						return s.In, s.Out
					}
				}
				return 0, 0
			}
			q, err := http.NewRequest("POST", r.base+"/", io.LimitReader(endless{}, piece))
			must(t, err)
			resp, err := b.client(r.h2).Do(q)
			must(t, err)
			defer resp.Body.Close()
			_, err = io.CopyN(io.Discard, resp.Body, piece)
			must(t, err)
			// The transfer still runs, and is already counted.
			eventually(t, 20*time.Second, "live counts", func() bool {
				in, out := count()
				return in >= piece && out >= piece
			})
			next <- struct{}{}
			_, err = io.Copy(io.Discard, resp.Body)
			must(t, err)
			eventually(t, 20*time.Second, "all counts", func() bool { in, _ := count(); return in >= 2*piece })
			if in, out := count(); in > 2*piece+piece/10 || out > piece+piece/10 {
				t.Errorf("%d in and %d out for %d and %d", in, out, 2*piece, piece)
			}
		})
	}
}

// Without pools: a credential that a client sends must reach only its site.
func TestACredentialIsNowhereButAtItsOrigin(t *testing.T) {
	const canary = "canary-7f3b9c1e"
	b := newTestProxy(t, "intercept: all", "log: {level: trace, access: true}", "access: {clients: [{name: news, secret: "+canary+"-proxy}]}")
	var reached, leaked sync.Map
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		reached.Store(r.Header.Get("Authorization"), true)
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), canary+"-proxy") {
				leaked.Store(name, true)
			}
		}
		if r.URL.Path == "/die" {
			panic(http.ErrAbortHandler)
		}
	})
	var said strings.Builder
	for _, w := range []clientPath{plain} {
		for _, path := range []string{"/?key=" + canary, "/die?key=" + canary} {
			conn := b.open(w)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer %s\r\nCookie: %s\r\nProxy-Authorization: Basic bmV3czpjYW5hcnktN2YzYjljMWUtcHJveHk=\r\n\r\n", w.line(path), canary, canary)
			resp, body := readResponse(t, conn, "GET")
			fmt.Fprintln(&said, resp.Header, body)
		}
	}
	for _, raw := range []string{
		"GET http://user:" + canary + "@api.test/ HTTP/1.1\r\nHost: api.test\r\nProxy-Authorization: Basic bmV3czpjYW5hcnktN2YzYjljMWUtcHJveHk=\r\n\r\n",
		"GET http://nowhere.invalid/" + canary + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\nProxy-Authorization: Basic bmV3czpjYW5hcnktN2YzYjljMWUtcHJveHk=\r\n\r\n",
		"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nProxy-Authorization: Bearer " + canary + "\r\n\r\n",
		"GET http://api.test/" + canary + " HTTP/1.1\r\nBroken : " + canary + "\r\n\r\n",
		"BREW http://api.test/" + canary + " HTTP/1.1\r\nHost: api.test\r\nX: " + canary + "\r\n\r\n",
	} {
		conn := b.dial()
		io.WriteString(conn, raw)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		body, _ := io.ReadAll(resp.Body)
		fmt.Fprintln(&said, resp.Header, string(body))
	}
	// A panic of abide while the credential is in scope.
	b.server.forwarder.pipeline.OnRequest().DoFunc(panicInPipeline)
	conn := b.dial()
	io.WriteString(conn, "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nAuthorization: "+canary+"\r\nProxy-Authorization: Basic bmV3czpjYW5hcnktN2YzYjljMWUtcHJveHk=\r\n\r\n")
	resp, body := readResponse(t, conn, "GET")
	if resp.StatusCode != 500 {
		t.Errorf("a panic made %d", resp.StatusCode)
	}
	fmt.Fprintln(&said, resp.Header, body)

	if _, ok := reached.Load("Bearer " + canary); !ok {
		t.Error("the origin did not get its credential")
	}
	leaked.Range(func(name, _ any) bool { t.Errorf("the proxy's secret reached the origin in %s", name); return true })
	b.stop() // the access log is written by now
	for what, text := range map[string]string{"an answer": said.String(), "the log": b.log.String(), "the metrics": b.scrapeMetrics()} {
		if strings.Contains(text, canary) {
			t.Errorf("it is in %s:\n%s", what, text)
		}
	}
	if !strings.Contains(b.log.String(), "status=200") {
		t.Error("the access log has no line")
	}
}

func TestStoppingLetsATunnelHaveItsAnswer(t *testing.T) {
	b := newTestProxy(t, "intercept: none", "timeouts: {drain: 15s}")
	arrived := make(chan struct{})
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		select {
		case <-time.After(idleBeforeClose(15*time.Second) / 2):
		case <-r.Context().Done():
		}
		io.WriteString(w, "whole")
	})
	type result struct {
		body string
		err  error
	}
	got := make(chan result, 1)
	client := b.client(false)
	go func() {
		resp, err := client.Get("https://" + host + "/")
		if err != nil {
			got <- result{"", err}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		got <- result{string(body), err}
	}()
	<-arrived
	began := time.Now()
	b.stop()
	if r := <-got; r.err != nil || r.body != "whole" {
		t.Errorf("%q, %v", r.body, r.err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
