package proxy

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// The receive buffers of many connections are larger than a window. Their bytes count from
// the first window on. A slow machine takes less.
func TestManyBodiesAtOnceKeepALimitOfBytes(t *testing.T) {
	const many = 40
	ask := func(method, u string, length int64, h2 bool) func(w *byteTest) {
		return func(w *byteTest) {
			for _, c := range w.clients(many, h2) {
				w.requestUntilStop(c, method, u, length)
			}
		}
	}
	for _, k := range []struct {
		name, speaks, intercept string
		begin                   func(w *byteTest)
	}{
		{"plain", "http", "none", ask(http.MethodGet, "http://"+host+"/", 0, false)},
		{"plain, small answers", "http", "none", ask(http.MethodGet, "http://"+host+"/small", 0, false)},
		{"uploads", "http", "none", ask(http.MethodPost, "http://"+host+"/take", 1<<30, false)},
		{"https", "https", "all", ask(http.MethodGet, "https://"+host+"/", 0, false)},
		{"h2", "h2", "all", ask(http.MethodGet, "https://"+host+"/", 0, true)},
		{"tunnels", "", "none", func(w *byteTest) {
			for range many {
				w.openTunnel("127.0.0.1", "flooda")
			}
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newByteTest(t, k.speaks, "intercept: "+k.intercept, limitsOf("{bytes: 200kB, per: 500ms}"))
			from := time.Now()
			k.begin(w)
			last := sample{}
			for n := 0; n < 20 && last.all < someBytes; n++ { // a busy machine takes long for handshakes
				w.measure(time.Now().Add(6 * someTime))
				w.mu.Lock()
				last = w.samples[len(w.samples)-1]
				w.mu.Unlock()
			}
			windows := 1 + int64(last.to.Truncate(someTime).Sub(from.Truncate(someTime))/someTime)
			most := windows * someBytes * 103 / 100
			t.Logf("%d bytes of %d in %d windows", last.all, windows*someBytes, windows)
			if last.all > most {
				t.Errorf("%d bytes came in %d windows, and at most %d may", last.all, windows, most)
			}
			if last.all < someBytes {
				t.Errorf("only %d bytes came in %d windows", last.all, windows)
			}
		})
	}
}

// No window has more than its limit, however many connections there are, and hardly anything of it
// is lost to what they hold.
func TestManyConnectionsUseALimitOfBytesAndNoMore(t *testing.T) {
	for _, k := range []struct {
		name, speaks string
		least        float64
		begin        func(w *byteTest)
	}{
		{"sixty bodies", "http", 0.95, func(w *byteTest) {
			for _, c := range w.clients(60, false) {
				w.requestUntilStop(c, http.MethodGet, "http://"+host+"/", 0)
			}
		}},
		{"sixty tunnels", "", 0.95, func(w *byteTest) {
			for range 60 {
				w.openTunnel("127.0.0.1", "flooda")
			}
		}},
		{"answers that begin late in a window", "", 0.85, func(w *byteTest) {
			for range 12 {
				w.openTunnel("127.0.0.1", "latera")
			}
			w.openTunnel("127.0.0.1", "flooda")
		}},
		{"small answers", "http", 0.9, func(w *byteTest) {
			for _, c := range w.clients(8, false) {
				w.requestUntilStop(c, http.MethodGet, "http://"+host+"/small", 0)
			}
		}},
	} {
		retryOnSlowMachine(t, k.name, func(t *testing.T) bool {
			const amount, every = 400_000, time.Second
			w := newByteTest(t, k.speaks, "intercept: none", limitsOf("{bytes: 400kB, per: 1s}"))
			k.begin(w)
			w.measure(time.Now().Add(8 * every))
			verdict := w.windows(t, "", amount, every)
			t.Logf("%d connections, %d bytes beyond the limit, %.1f %% used", len(w.conns), verdict.over, 100*verdict.used)
			// On a slow machine a read that a window has paid for happens in the next one.
			return verdict.over <= amount/100 && (verdict.used >= k.least || verdict.used >= 0 && raced)
		})
	}
}

// All connections hold at most half of a limit, which many tunnels that stand still would fill for good.
func TestTunnelsThatStandStillMakeRoomForOthers(t *testing.T) {
	w := newByteTest(t, "", "intercept: none", limitsOf("{bytes: 400kB, per: 1h, stall: 20s}"))
	for n := range 48 {
		c := w.tunnel("127.0.0.1", "echo a")
		if _, err := io.WriteString(c, "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatalf("tunnel %d: %v", n, err)
		}
	}
}
