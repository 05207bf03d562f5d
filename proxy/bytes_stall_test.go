package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// littleBytes is a limit that grants its size once, and then almost nothing.
const littleBytes = "{bytes: %s, per: 1d, as: bucket, stall: 1s}"

// limitsOf is a rule with limits for the site.
func limitsOf(text string) string {
	return "sites:\n  - {host: " + host + ", limits: [" + text + "]}"
}

// newByteLimitedProxy is a proxy whose site has size bytes, and whose breaker opens at the
// first failure.
func newByteLimitedProxy(t *testing.T, size string, site http.HandlerFunc, lines ...string) *testProxy {
	lines = append(lines, limitsOf(fmt.Sprintf(littleBytes, size)), "breaker: {failures: 1, pause: 1h}", "intercept: all")
	b := newTestProxy(t, lines...)
	b.handle(site)
	return b
}

// siteNotBlamed checks that the site had one request, and that its breaker is closed.
func (b *testProxy) siteNotBlamed() {
	b.t.Helper()
	if n := b.served.Load(); n != 1 {
		b.t.Errorf("the site was asked %d times", n)
	}
	if n := b.server.Sizes()["breakers"]; n != 0 {
		b.t.Errorf("%d breakers remember a failure", n)
	}
}

// metricValue is the value of a metric.
func (b *testProxy) metricValue(what string) int {
	b.t.Helper()
	rec := httptest.NewRecorder()
	b.metrics.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(rec.Body.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), what+" "); ok {
			n, err := strconv.Atoi(rest)
			must(b.t, err)
			return n
		}
	}
	return 0
}

const stalls = `abide_own_refusals_total{reason="stall"}`

func flood(rw http.ResponseWriter, _ *http.Request) {
	for piece := make([]byte, 4<<10); ; {
		if _, err := rw.Write(piece); err != nil {
			return
		}
	}
}

func TestABodyThatStandsStillForTooLongIsCut(t *testing.T) {
	for _, u := range []string{"http://" + host + "/", "https://" + host + "/"} {
		b := newByteLimitedProxy(t, "20kB", flood)
		began := time.Now()
		resp, err := b.client(true).Get(u)
		must(t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || err == nil || errors.Is(err, io.EOF) || n == 0 {
			t.Errorf("%s: %d, %d bytes, %v", u, resp.StatusCode, n, err)
		}
		if took := time.Since(began); took < 900*time.Millisecond || took > 10*time.Second {
			t.Errorf("%s: it was cut after %v", u, took)
		}
		b.siteNotBlamed()
		if n := b.metricValue(stalls); n != 1 {
			t.Errorf("%s: counted %d times", u, n)
		}
		if text := b.log.String(); !strings.Contains(text, "longer than its stall") || !strings.Contains(text, "site="+host) {
			t.Errorf("the log does not say why: %s", text)
		}
	}
}

func TestAHeadThatStandsStillForTooLongIsAnswered(t *testing.T) {
	for _, u := range []string{"http://" + host + "/", "https://" + host + "/"} {
		b := newByteLimitedProxy(t, "20kB", func(rw http.ResponseWriter, _ *http.Request) {
			for i := range 40 {
				rw.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		})
		began := time.Now()
		resp, err := b.client(true).Get(u)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != 504 || took < 900*time.Millisecond || !bytes.Contains(text, []byte(`"urn:abide:stall"`)) {
			t.Errorf("%s: %d after %v: %s", u, resp.StatusCode, took, text)
		}
		b.siteNotBlamed()
		if n := b.metricValue(stalls); n != 1 {
			t.Errorf("%s: counted %d times", u, n)
		}
	}
}

func TestAnUploadThatStandsStillForTooLongIsAnswered(t *testing.T) {
	b := newByteLimitedProxy(t, "20kB", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	resp, err := b.client(false).Post("http://"+host+"/", "text/plain", bytes.NewReader(make([]byte, 100_000)))
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 504 || !bytes.Contains(text, []byte(`"urn:abide:stall"`)) {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	b.siteNotBlamed()
}

func TestAnAnswerThatIsTooLongIsRefusedBeforeItComes(t *testing.T) {
	size := 200_000
	b := newByteLimitedProxy(t, "40kB", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(size))
		if r.Method != "HEAD" {
			rw.Write(make([]byte, size))
		}
	})
	c := b.client(false)
	ask := func(method string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+host+"/", nil)
		must(t, err)
		resp, err := c.Do(r)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp, string(text)
	}
	if resp, _ := ask("HEAD"); resp.StatusCode != 200 || resp.ContentLength != int64(size) {
		t.Errorf("HEAD: %v", resp)
	}
	left := b.remainingBytes()
	resp, text := ask("GET")
	// 160,000 more bytes take four days.
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != 429 || after < 3*86400 || after > 5*86400 || !strings.Contains(text, `"urn:abide:bytes"`) ||
		!strings.Contains(text, `"retry_at":"`) || !strings.Contains(text, "40kB per 1d") {
		t.Errorf("%d, Retry-After %d: %s", resp.StatusCode, after, text)
	}
	if took := left - b.remainingBytes(); took > 16<<10 {
		t.Errorf("%d bytes were taken for it", took)
	}
	if n := b.server.Sizes()["breakers"]; n != 0 || b.served.Load() != 2 {
		t.Errorf("%d breakers, asked %d times", n, b.served.Load())
	}
	size = 5_000
	if resp, text := ask("GET"); resp.StatusCode != 200 || len(text) != size {
		t.Errorf("%d, %d bytes", resp.StatusCode, len(text))
	}
}

// remainingBytes is what is left of the only limit of bytes.
func (b *testProxy) remainingBytes() int64 {
	b.t.Helper()
	for _, l := range b.server.WrittenLimits() {
		if l.Unit == "bytes" {
			return l.Left
		}
	}
	b.t.Fatal("there is no limit of bytes")
	return 0
}

func TestABodyLargerThanItsLimitIsSlowAndWhole(t *testing.T) {
	b := newTestProxy(t, limitsOf("{bytes: 20kB, per: 200ms}"), "intercept: all")
	want := bytes.Repeat([]byte("0123456789"), 9_000)
	b.handle(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			rw.Header().Set("Content-Length", strconv.Itoa(len(want)))
		}
		rw.Write(want)
	})
	for _, u := range []string{"http://" + host + "/", "http://" + host + "/long", "https://" + host + "/long"} {
		began := time.Now()
		resp, err := b.client(true).Get(u)
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, want) || time.Since(began) < 600*time.Millisecond {
			t.Errorf("%s: %d, %d bytes after %v, %v", u, resp.StatusCode, len(got), time.Since(began), err)
		}
	}
}

// setTrickleEvery sets trickleEvery until the end of the test.
func setTrickleEvery(t *testing.T, d time.Duration) {
	was := trickleEvery
	t.Cleanup(func() { trickleEvery = was })
	trickleEvery = d
}

func TestABodyThatStandsStillGetsALittleNowAndThen(t *testing.T) {
	setTrickleEvery(t, 100*time.Millisecond)
	little := 0
	for range 5 { // on a busy machine two of them may be read together
		if little = countTrickles(t); little >= 2 {
			return
		}
	}
	t.Errorf("%d times there was a little", little)
}

// countTrickles counts how often a client received a few bytes after a pause.
func countTrickles(t *testing.T) (n int) {
	b := newByteLimitedProxy(t, "100kB", flood)
	conn := b.open(plain)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", plain.line("/"), host)
	in, last := bufio.NewReader(conn), time.Now()
	piece := make([]byte, 4<<10)
	for {
		got, err := in.Read(piece)
		if pause := time.Since(last); got > 0 && got <= 2*512 && pause > trickleEvery/2 {
			n++
		}
		last = time.Now()
		if err != nil {
			break
		}
	}
	b.siteNotBlamed()
	return n
}

func TestNothingIsHeldByBytesThatAreOnlyObserved(t *testing.T) {
	b := newTestProxy(t, limitsOf("{bytes: 10kB, per: 1d, as: bucket, stall: 1s}"), "mode: observe", "intercept: all")
	b.handle(func(rw http.ResponseWriter, _ *http.Request) { rw.Write(make([]byte, 100_000)) })
	for _, u := range []string{"http://" + host + "/", "https://" + host + "/"} {
		resp, err := b.client(true).Get(u)
		must(t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if n != 100_000 || err != nil {
			t.Errorf("%s: %d, %d bytes, %v", u, resp.StatusCode, n, err)
		}
	}
}
