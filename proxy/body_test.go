package proxy

import (
	"bufio"
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

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// oneChunk is the head of a chunked request and its first chunk.
const oneChunk = "POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"

// dialAndWrite opens a connection to the proxy and writes text.
func (w *bubbleProxy) dialAndWrite(text string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	c, err := w.front.dial(w.t.Context())
	must(w.t, err)
	go io.WriteString(c, text)
	return c, bufio.NewReader(c)
}

// nextResponse reads a response with its body.
func nextResponse(t *testing.T, from *bufio.Reader) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(from, nil)
	}
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text)
}

// refuseFirst answers the first request with 429, and the next with what tell returns.
func refuseFirst(tell func(r *http.Request, body string, err error) string) http.HandlerFunc {
	n := 0
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if n++; n == 1 {
			rw.Header().Set("Retry-After", "1")
			rw.Header().Set("First", tell(r, string(body), err))
			rw.WriteHeader(429)
			return
		}
		io.WriteString(rw, tell(r, string(body), err))
	}
}

func TestATrailerArrivesWithTheFirstAttemptAndWithAnother(t *testing.T) {
	const text = "POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\n%sTransfer-Encoding: chunked\r\nTrailer: X-A, X-B\r\n\r\n3\r\nabc\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n"
	for _, retry := range []string{"", "Abide-Retry: none\r\n"} {
		first := ""
		sites := refuseFirst(func(r *http.Request, body string, err error) string {
			told := fmt.Sprint(body, r.Trailer.Get("X-A"), r.Trailer.Get("X-B"), err)
			if first == "" {
				first = told
			}
			return told
		})
		bubble(t, sites, "", func(w *bubbleProxy) {
			c, answer := w.dialAndWrite(fmt.Sprintf(text, retry))
			status, body := nextResponse(t, answer)
			c.Close()
			const want = "abc12<nil>"
			if first != want {
				t.Errorf("the first attempt: %q", first)
			}
			if retry == "" && (status != 200 || body != want) {
				t.Errorf("the second: %d %q", status, body)
			}
		})
	}
}

func TestATrailerThatComesWhileTheRequestIsSentOut(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(rw, string(body), r.Trailer.Get("X-A"), r.Trailer.Get("X-B"), err)
	}
	bubble(t, sites, "sites:\n  - {host: site.test, limits: [{requests: 1, per: 10s}]}\n", func(w *bubbleProxy) {
		var client atomic.Pointer[net.Conn]
		w.dialed = func(string) error {
			if c := client.Load(); c != nil { // the request may be sent, and its body is still read ahead
				go io.WriteString(*c, "0\r\nX-A: 1\r\nX-B: 2\r\n\r\n")
			}
			return nil
		}
		w.get(w.client(), "http://site.test/first", "Connection", "close")
		w.server.Current().Upstream().CloseIdle()
		c, answer := w.dialAndWrite(strings.Replace(oneChunk, "\r\n\r\n", "\r\nTrailer: X-A, X-B\r\n\r\n", 1))
		client.Store(&c)
		if status, body := nextResponse(t, answer); status != 200 || body != "abc12<nil>" {
			t.Errorf("%d %q", status, body)
		}
		c.Close()
	})
}

func TestAConversationMayBeHeldForLongerThanItMayStall(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(200)
		buf := make([]byte, 100)
		n, _ := r.Body.Read(buf)
		rw.Write(buf[:n])
	}
	const timeouts = "timeouts: {stall: 1m, upload: 2m, idle: 15m, answer: 1h, drain: 30s}\n"
	bubble(t, sites, timeouts+tenMinutes, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		c, answer := w.dialAndWrite(oneChunk)
		if status, body := nextResponse(t, answer); status != 200 || body != "abc" || time.Since(w.began) < 10*time.Minute {
			t.Errorf("%d %q after %v", status, body, time.Since(w.began))
		}
		c.Close()
	})
	t.Run("but its client has to go on when it has been sent", func(t *testing.T) {
		bubble(t, echoing, timeouts+tenMinutes, func(w *bubbleProxy) {
			w.get(w.client(), "http://site.test/first")
			c, answer := w.dialAndWrite(oneChunk)
			status, body := nextResponse(t, answer)
			if took := time.Since(w.began); status != 408 || took < 11*time.Minute || took > 12*time.Minute {
				t.Errorf("%d %q after %v", status, body, took)
			}
			c.Close()
		})
	})
}

func TestABodyThatBreaksWhileItIsHeldIsAnsweredAtOnceAndNotSent(t *testing.T) {
	bubble(t, echoing, "timeouts: {stall: 1m, idle: 15m, answer: 1h, drain: 30s}\n"+tenMinutes, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		c, answer := w.dialAndWrite(oneChunk)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.server.Holds("", 1000)); n != 1 {
			t.Fatalf("%d requests are held", n)
		}
		go io.WriteString(c, "no chunk\r\n")
		if status, body := nextResponse(t, answer); status != 400 || !strings.Contains(body, "urn:abide:") {
			t.Errorf("%d %s", status, body)
		}
		if took := time.Since(w.began); took != time.Minute || w.asked.Load() != 1 {
			t.Errorf("after %v and %d requests", took, w.asked.Load())
		}
		c.Close()
		w.idle("site.test")
	})
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestTheMemoryOfAKeptBodyIsLetGoWhileTheAnswerStreams(t *testing.T) {
	const crowd, size = 16, 1 << 20
	heap := func() uint64 {
		var m runtime.MemStats
		for range 2 { // the second frees what pools held in the first
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, sized := range []bool{true, false} {
		sites := func(rw http.ResponseWriter, r *http.Request) {
			discard(r.Body)
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		// Each body fits, but not two of them at a time.
		bubble(t, sites, "retry: {memory: 2MiB}\n", func(w *bubbleProxy) {
			before := heap()
			for range crowd {
				r, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://site.test/", io.LimitReader(zeros{}, size))
				must(t, err)
				if sized {
					r.ContentLength = size
				}
				resp, err := w.client().Do(r)
				must(t, err)
				defer resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Fatal(resp.Status)
				}
			}
			synctest.Wait()
			after := heap()
			if n := w.asked.Load(); n != crowd {
				t.Fatalf("%d requests", n)
			}
			if kept := w.server.forwarder.replayBytes.Load(); kept != 0 || after > before+crowd*size/3 {
				t.Errorf("sized %v: %d bytes are counted, and there are %d KiB more for %d bodies of %d KiB", sized, kept, (int64(after)-int64(before))>>10, crowd, size>>10)
			}
		})
	}
}

func TestABodyInChunksIsSentWhereAConnectionWasRefusedBefore(t *testing.T) {
	for _, sized := range []bool{true, false} {
		var body io.Reader = strings.NewReader("x")
		if !sized {
			body = unsized{body}
		}
		bubble(t, echoing, "", func(w *bubbleProxy) {
			n := 0
			w.dialed = func(string) error {
				if n++; n == 1 {
					return &upstream.Error{Kind: upstream.Refused}
				}
				return nil
			}
			a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", body)
			if a.status != 200 || a.body != "POST / x" || n != 2 {
				t.Errorf("sized %v: %d %q after %d connections", sized, a.status, a.body, n)
			}
		})
	}
}

func TestABodyInChunksGoesToAnotherBackendWhenOneIsDown(t *testing.T) {
	bubble(t, echoing, "sites:\n  - {host: site.test, balance: round-robin, backends: [http://a.test, http://b.test]}\n", func(w *bubbleProxy) {
		refused := 0
		w.dialed = func(host string) error {
			if host == "a.test" {
				refused++
				return &upstream.Error{Kind: upstream.Refused}
			}
			return nil
		}
		for range 2 {
			a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", unsized{strings.NewReader("x")})
			if a.status != 200 || a.body != "POST / x" || a.at > time.Second {
				t.Errorf("%d %q after %v", a.status, a.body, a.at)
			}
		}
		if refused == 0 {
			t.Error("nobody went to the backend that is down")
		}
	})
}

func TestARefusalBeforeTheBodyHasComeWholeIsForAbideToo(t *testing.T) {
	n := 0
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			http.NewResponseController(rw).EnableFullDuplex()
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(429)
			return
		}
		echoing(rw, r)
	}
	bubble(t, sites, "", func(w *bubbleProxy) {
		c, answer := w.dialAndWrite(oneChunk)
		go func() {
			time.Sleep(200 * time.Millisecond)
			io.WriteString(c, "3\r\ndef\r\n0\r\n\r\n")
		}()
		if status, body := nextResponse(t, answer); status != 200 || body != "POST / abcdef" || w.asked.Load() != 2 {
			t.Errorf("%d %q after %d requests", status, body, w.asked.Load())
		}
		c.Close()
	})
}

func TestWhatIsSentAgainIsFramedAsItCame(t *testing.T) {
	const (
		post  = "POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\n"
		chunk = "Transfer-Encoding: chunked\r\n\r\n"
	)
	for _, c := range []struct{ text, want string }{
		{"POST http://site.test/ HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "abc [] 3"},
		{post + "Content-Length: 0\r\n\r\n", " [] 0"},
		{post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "abc [] 3"},
		{post + "Content-Length: 3\r\n" + chunk + "5\r\nabcde\r\n0\r\n\r\n", "abcde [chunked] -1"},
		{post + chunk + "5\r\nabcde\r\n0\r\nX-A: 7\r\n\r\n", "abcde [chunked] -1"},
		{post + chunk + "0\r\n\r\n", " [chunked] -1"},
		{post + "Expect: 100-continue\r\n" + chunk + "3\r\nabc\r\n0\r\n\r\n", "abc [chunked] -1"},
		{"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n" + chunk + "1\r\na\r\n0\r\n\r\n", "a [chunked] -1"},
	} {
		sites := refuseFirst(func(r *http.Request, body string, err error) string {
			return strings.TrimSuffix(fmt.Sprint(body, " ", r.TransferEncoding, " ", r.ContentLength, " ", err), " <nil>")
		})
		bubble(t, sites, "", func(w *bubbleProxy) {
			conn, answer := w.dialAndWrite(c.text)
			if status, body := nextResponse(t, answer); status != 200 || body != c.want || w.asked.Load() != 2 {
				t.Errorf("%.200q: %d %q after %d requests", c.text, status, body, w.asked.Load())
			}
			conn.Close()
		})
	}
}

func TestABodyThatStreamsIsAnsweredWhenItIsHeldAtTheEnd(t *testing.T) {
	bubble(t, echoing, "retry: {body: 1KiB}\n"+tenMinutes, func(w *bubbleProxy) {
		w.get(w.client(), "http://site.test/first")
		c, answer := w.dialAndWrite(oneChunk + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 300_000, strings.Repeat("x", 300_000)))
		time.Sleep(time.Second)
		synctest.Wait()
		w.stop()
		status, body := nextResponse(t, answer)
		if took := time.Since(w.began); status != 503 || !strings.Contains(body, "urn:abide:draining") || took > 31*time.Second {
			t.Errorf("%d %s after %v", status, body, took)
		}
		c.Close()
	})
}

func TestABodyOfExactlyRetryBodyIsSentAgainAndALargerOneIsNot(t *testing.T) {
	for _, sized := range []bool{true, false} {
		for more, want := range []int{200, 429} {
			sites := refuseFirst(func(_ *http.Request, body string, err error) string { return fmt.Sprint(len(body), err) })
			bubble(t, sites, "retry: {body: 64KiB}\n", func(w *bubbleProxy) {
				var body io.Reader = strings.NewReader(strings.Repeat("x", 64<<10+more))
				if !sized {
					body = unsized{body}
				}
				a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", body)
				if a.status != want || want == 200 && a.body != "65536 <nil>" {
					t.Errorf("sized %v, %d bytes more: %d %q", sized, more, a.status, a.body)
				}
				w.idle("site.test")
			})
		}
	}
}

func TestTheEndOfARequestEndsItsBodyWhoeverStillReadsIt(t *testing.T) {
	bubble(t, echoing, "", func(w *bubbleProxy) {
		s := w.server
		x := &exchange{Request: dispatch.Request{Snapshot: s.Current()}}
		d, comes := io.Pipe()
		x.Caller = x
		x.memory.total = &s.forwarder.replayBytes
		x.memory.maxBody, x.memory.maxTotal, x.memory.announced = int64(s.Policy().Retry.Body), int64(s.Policy().Retry.Memory), -1
		x.replay.Begin(d, nil, &x.memory)
		body, _ := x.replay.Reader()
		ended := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(body)
			ended <- err
		}()
		_, err := io.WriteString(comes, "abc")
		must(w.t, err)
		synctest.Wait()
		if s.forwarder.replayBytes.Load() == 0 {
			t.Error("nothing is kept")
		}
		x.end(s.Dispatcher)
		if err := <-ended; err != io.ErrClosedPipe {
			t.Errorf("who reads it got %v", err)
		}
		if step := x.memory.Take(0); step != 0 || s.forwarder.replayBytes.Load() != 0 {
			t.Errorf("there is room for %d after the end, and %d bytes are counted", step, s.forwarder.replayBytes.Load())
		}
	})
}
