package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// A body that is inspected arrives unchanged, in whatever pieces it comes.
func TestBodiesThatAreLookedIntoStayWhole(t *testing.T) {
	var plain []byte
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		var n, mode, status int
		fmt.Sscanf(r.URL.Path, "/%d/%d/%d", &n, &mode, &status)
		rw.Header().Set("Content-Type", "application/json")
		body := plain[:n]
		if mode&1 != 0 {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			w.Write(body)
			w.Close()
			body = z.Bytes()
			rw.Header().Set("Content-Encoding", "gzip")
		}
		if mode&2 != 0 {
			rw.Header().Set("Content-Length", fmt.Sprint(len(body)))
		} else {
			rw.Header().Set("Trailer", "X-End")
			defer rw.Header().Set("X-End", "yes")
		}
		rw.WriteHeader(status)
		if r.Method == "HEAD" {
			return
		}
		for len(body) > 0 {
			k := min(len(body), 1+rand.IntN(3000))
			rw.Write(body[:k])
			body = body[k:]
			if mode&4 != 0 {
				http.NewResponseController(rw).Flush()
				elapse(time.Duration(rand.IntN(900)) * time.Millisecond)
			}
			if mode&8 != 0 && rand.IntN(3) == 0 {
				panic(http.ErrAbortHandler)
			}
		}
	}, "retry: {attempts: 1}\nsites:\n  - {host: site.test, limits: [{concurrency: 100}]}\n", func(w *bubbleProxy) {
		plain = bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
		c := w.client()
		c.Transport.(*http.Transport).DisableCompression = true
		for i := range 600 {
			n, mode, status := rand.IntN(1+[]int{10, 4095, 4096, 4097, 9000, 60000}[i%6]), rand.IntN(16), []int{400, 404, 410, 422, 304, 204}[rand.IntN(6)]
			if status < 400 {
				n = 0
			}
			method := "GET"
			if rand.IntN(8) == 0 {
				method = "HEAD"
			}
			ctx, cancel := context.WithCancel(w.t.Context())
			r, _ := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://site.test/%d/%d/%d", n, mode, status), nil)
			resp, err := c.Do(r)
			if err != nil {
				if mode&8 == 0 {
					t.Fatal(err)
				}
				cancel()
				continue
			}
			if resp.StatusCode != status && mode&8 == 0 {
				t.Errorf("%d for %d", resp.StatusCode, status)
			}
			if resp.StatusCode != status || rand.IntN(10) == 0 { // the client leaves
				cancel()
				resp.Body.Close()
				continue
			}
			got, err := io.ReadAll(resp.Body)
			if err == nil && mode&1 != 0 && len(got) > 0 {
				z, zerr := gzip.NewReader(bytes.NewReader(got))
				must(t, zerr)
				got, err = io.ReadAll(z)
			}
			if err != nil && mode&8 == 0 {
				t.Fatal(err)
			}
			if err == nil && mode&2 == 0 && method == "GET" && status >= 400 && resp.Trailer.Get("X-End") != "yes" {
				t.Errorf("%d %d: trailers %v", n, mode, resp.Trailer)
			}
			if err == nil && method == "GET" && !bytes.Equal(got, plain[:n]) {
				t.Fatalf("%d %d: %d bytes", n, mode, len(got))
			}
			if !bytes.HasPrefix(plain, got) && mode&1 == 0 {
				t.Fatalf("%d %d: others", n, mode)
			}
			resp.Body.Close()
			cancel()
		}
		elapse(time.Minute)
		w.idle("site.test")
	})
}

// A body that is inspected and does not come does not delay its head.
func TestARefusalWhoseBodyDoesNotComeIsAnsweredInTime(t *testing.T) {
	bubble(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(404)
		fmt.Fprint(rw, "{")
		http.NewResponseController(rw).Flush()
		elapse(40 * time.Second)
		fmt.Fprint(rw, "}")
	}, "sites:\n  - {host: site.test, limits: [{concurrency: 100}]}\n", func(w *bubbleProxy) {
		r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://site.test/", nil)
		must(t, err)
		resp, err := w.client().Do(r)
		must(t, err)
		if at := time.Since(w.began); at > 5*time.Second {
			t.Errorf("the head came after %v", at)
		}
		body := make([]byte, 10)
		n := 0
		for err == nil {
			var more int
			more, err = resp.Body.Read(body[n:])
			n += more
		}
		if string(body[:n]) != "{}" {
			t.Errorf("%q %v", body[:n], err)
		}
		resp.Body.Close()
		w.idle("site.test")
	})
}
