package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// unsized hides the length of a body, so that the body is sent in chunks.
type unsized struct{ io.Reader }

const tenMinutes = "sites:\n  - {host: site.test, limits: [{requests: 1, per: 10m}]}\n"

func TestAClientThatLeavesWhileHeldIsGoneAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   func() io.Reader
		method string
		header []string
	}{
		{"no body", func() io.Reader { return nil }, "GET", nil},
		{"a body", func() io.Reader { return strings.NewReader("x") }, "POST", nil},
		{"a body in chunks", func() io.Reader { return unsized{strings.NewReader("x")} }, "POST", nil},
		{"a body that is sent once", func() io.Reader { return strings.NewReader("x") }, "POST", []string{"Abide-Retry", "none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, echoing, tenMinutes, func(w *bubbleProxy) {
				w.get(w.client(), "http://site.test/first")
				ctx, leave := context.WithCancel(w.t.Context())
				done := make(chan clientResult, 1)
				go func() { done <- w.do(ctx, w.client(), c.method, "http://site.test/", c.body(), c.header...) }()
				synctest.Wait()
				if n := len(w.server.Holds("site.test", 1000)); n != 1 {
					t.Fatalf("%d holds", n)
				}
				leave()
				<-done
				synctest.Wait() // no time passes
				if n := len(w.server.Holds("site.test", 1000)); n != 0 {
					t.Errorf("%d holds after the client left", n)
				}
				if a := w.get(w.client(), "http://site.test/second"); a.status != 200 || a.at > 10*time.Minute+2*time.Second || w.asked.Load() != 2 {
					t.Errorf("%d after %v and %d requests: what the client left was spent", a.status, a.at, w.asked.Load())
				}
			})
		})
	}
}

func TestABodyInChunksIsSentAgain(t *testing.T) {
	n := 0
	sites := func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if n++; n == 1 {
			rw.Header().Set("Retry-After", "5")
			rw.WriteHeader(429)
			return
		}
		fmt.Fprintf(rw, "%d %v", len(body), r.TransferEncoding)
	}
	for _, size := range []int{1, 100_000, 1 << 20} {
		n = 0
		bubble(t, sites, "", func(w *bubbleProxy) {
			a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", unsized{strings.NewReader(strings.Repeat("x", size))})
			if want := fmt.Sprintf("%d [chunked]", size); a.status != 200 || a.body != want {
				t.Errorf("%d bytes: %d %q", size, a.status, a.body)
			}
			if kept := w.server.forwarder.replayBytes.Load(); kept != 0 {
				t.Errorf("%d bytes are still counted as kept", kept)
			}
		})
	}
	t.Run("but not one that is larger than retry.body", func(t *testing.T) {
		n = 0
		bubble(t, sites, "retry: {body: 64KiB}\n", func(w *bubbleProxy) {
			a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", unsized{strings.NewReader(strings.Repeat("x", 200_000))})
			if a.status != 429 || w.asked.Load() != 1 || w.server.forwarder.replayBytes.Load() != 0 {
				t.Errorf("%d after %d requests, %d kept", a.status, w.asked.Load(), w.server.forwarder.replayBytes.Load())
			}
		})
	})
	t.Run("nor one for which there is no memory", func(t *testing.T) {
		for _, sized := range []bool{true, false} {
			n = 0
			bubble(t, sites, "retry: {body: 64KiB, memory: 64KiB}\n", func(w *bubbleProxy) {
				w.server.forwarder.replayBytes.Store(60 << 10)
				var body io.Reader = strings.NewReader(strings.Repeat("x", 20_000))
				if !sized {
					body = unsized{body}
				}
				a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", body)
				if a.status != 429 || w.asked.Load() != 1 || w.server.forwarder.replayBytes.Load() != 60<<10 {
					t.Errorf("%d after %d requests, %d kept", a.status, w.asked.Load(), w.server.forwarder.replayBytes.Load())
				}
			})
		}
	})
}

func TestAConversationInChunksIsNotHeldUp(t *testing.T) {
	sites := func(rw http.ResponseWriter, r *http.Request) {
		http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(200)
		http.NewResponseController(rw).Flush()
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			rw.Write(buf[:n])
			http.NewResponseController(rw).Flush()
			if err != nil {
				return
			}
		}
	}
	bubble(t, sites, "", func(w *bubbleProxy) {
		out, in := io.Pipe()
		r, _ := http.NewRequest("POST", "http://site.test/", out)
		answer := make(chan *http.Response, 1)
		go func() {
			resp, err := w.client().Do(r)
			must(t, err)
			answer <- resp
		}()
		io.WriteString(in, "one")
		resp := <-answer
		buf := make([]byte, 100)
		for _, word := range []string{"one", "two", "three"} {
			if word != "one" {
				io.WriteString(in, word)
			}
			n, err := io.ReadFull(resp.Body, buf[:len(word)])
			if err != nil || string(buf[:n]) != word {
				t.Fatalf("%q %v", buf[:n], err)
			}
		}
		in.Close()
		io.ReadAll(resp.Body)
		resp.Body.Close()
		if time.Since(w.began) > time.Second {
			t.Errorf("it took %v", time.Since(w.began))
		}
	})
}

func TestAnUploadThatIsHeldIsNotCalledSlow(t *testing.T) {
	for _, sized := range []bool{true, false} {
		bubble(t, echoing, "timeouts: {upload: 2m, stall: 1m, idle: 5m, drain: 30s}\nretry: {body: 64KiB}\n"+tenMinutes, func(w *bubbleProxy) {
			w.get(w.client(), "http://site.test/first")
			var body io.Reader = strings.NewReader(strings.Repeat("x", 300_000))
			if !sized {
				body = unsized{body}
			}
			a := w.do(w.t.Context(), w.client(), "POST", "http://site.test/", body)
			if a.status != 200 || len(a.body) < 300_000 || a.at < 10*time.Minute {
				t.Errorf("sized %v: %d after %v, %d bytes", sized, a.status, a.at, len(a.body))
			}
		})
	}
}

func TestARefusalOfOursTellsOfTheAttemptsBefore(t *testing.T) {
	sites := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "3600")
		rw.Header().Set("Abide-Site", "a lie")
		rw.Header().Set("Abide-Anything", "a lie")
		rw.WriteHeader(429)
	}
	bubble(t, sites, "", func(w *bubbleProxy) {
		a := w.get(w.client(), "http://site.test/")
		if a.status != 429 || a.header.Get("Abide-Attempts") != "1" || !strings.Contains(a.body, "urn:abide:wait") || !strings.Contains(a.body, "Retry-After") {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		a = w.get(w.client(), "http://site.test/")
		if a.status != 429 || a.header.Get("Abide-Attempts") != "0" || w.asked.Load() != 1 {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		a = w.get(w.client(), "http://other.test/", "Abide-Retry", "none")
		if a.status != 429 || a.header.Get("Abide-Site") != "other.test" || a.header.Get("Abide-Anything") != "" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	})
}
