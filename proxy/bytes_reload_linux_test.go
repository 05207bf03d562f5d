package proxy

import (
	"errors"
	"io"
	"math"
	"net/http"
	"testing"
	"time"
)

// setLimits reloads the proxy with other limits of its site.
func (w *byteTest) setLimits(limits string) {
	w.t.Helper()
	next := *w.server.Policy()
	next.Sites = w.policy("data: none\n" + limitsOf(limits)).Sites
	must(w.t, w.server.Reload(&next))
}

// rate is how many bytes pass in each someTime, from the next window on. It is not known
// when the machine was too busy to measure at a window's edges.
func (w *byteTest) rate() (each int64, known bool) {
	begin := time.Now().Truncate(someTime).Add(2 * someTime)
	w.measure(begin.Add(2*someTime + someTime/10))
	from, ok := w.at(begin, "", someTime/20)
	to, also := w.at(begin.Add(2*someTime), "", someTime/20)
	return (to - from) / 2, ok && also
}

// expectRate measures up to forty times whether the rate is in a range, because the machine
// may be busy. Exceeding the range fails at once.
func (w *byteTest) expectRate(least, most int64) {
	w.t.Helper()
	got, known := int64(0), false
	for range 40 {
		if got, known = w.rate(); known && got >= least {
			break
		}
	}
	if !known || got < least || got > most {
		w.t.Errorf("%d bytes pass, not %d to %d; was it seen: %v", got, least, most, known)
	}
}

// Limits of bytes change and are removed while bodies and tunnels are in flight.
func TestLimitsOfBytesAreReloadedUnderTraffic(t *testing.T) {
	for _, k := range []struct {
		name, speaks, intercept string
		begin                   func(w *byteTest)
	}{
		{"plain", "http", "none", func(w *byteTest) { w.requestUntilStop(w.client(false), "GET", "http://"+host+"/", 0) }},
		{"tunnel", "", "none", func(w *byteTest) { w.openTunnel("127.0.0.1", "flooda") }},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newByteTest(t, k.speaks, "intercept: "+k.intercept, limitsOf("{bytes: 100kB, per: 500ms}"))
			k.begin(w)
			w.expectRate(80_000, 100_000+buffer)
			w.setLimits("{bytes: 300kB, per: 500ms}")
			w.expectRate(250_000, 300_000+buffer)
			w.setLimits("{bytes: 50kB, per: 250ms, as: rolling}")
			w.expectRate(80_000, 100_000+buffer)
			w.setLimits("")
			w.expectRate(1_000_000, math.MaxInt64)
		})
	}
}

// Bytes that the site has sent earlier come slowly too, so the test measures what abide
// reads.
func TestALimitOfBytesBeginsToHoldInTunnelsThatAreOpen(t *testing.T) {
	t.Parallel()
	w := newByteTest(t, "", "intercept: none", limitsOf(""))
	w.openTunnel("127.0.0.1", "flooda")
	eventually(t, 20*time.Second, "it flows", func() bool { return w.readFromSites() > 10<<20 })
	w.setLimits("{bytes: 100kB, per: 500ms}")
	w.measure(time.Now().Truncate(someTime).Add(2 * someTime))
	for tries := 1; ; tries++ { // the machine may have something else to do
		began, before := time.Now(), w.readFromSites()
		w.measure(began.Truncate(someTime).Add(5 * someTime))
		got := w.readFromSites() - before
		windows := uint64(time.Now().Truncate(someTime).Sub(began.Truncate(someTime))/someTime) + 1
		if got > windows*100_000+buffer {
			t.Fatalf("%d bytes passed in %d windows of 100,000", got, windows)
		}
		if got >= 300_000 {
			break
		}
		if tries == 5 {
			t.Fatalf("only %d bytes passed in %d windows of 100,000", got, windows)
		}
	}
}

// readFromSites is how many bytes abide has read from sites.
func (w *byteTest) readFromSites() (n uint64) {
	for _, s := range w.metrics.Sites() {
		n += s.In
	}
	return n
}

// Credit that was taken ahead of a large limit is no debt under a smaller one.
func TestASmallerLimitOfBytesBeginsWithWhatPassedUnderALargeOne(t *testing.T) {
	w := newByteTest(t, "http", "intercept: none", limitsOf("{bytes: 100GB, per: day}"))
	c := w.client(false)
	small := "http://" + host + "/small"
	must(t, ask(c, small))
	w.setLimits("{bytes: 1MB, per: day}")
	must(t, ask(c, small))
	for _, l := range w.server.WrittenLimits() {
		if used := l.Amount - l.Left; used > 100_000 {
			t.Errorf("%d bytes are used", used)
		}
	}
}

// ask sends a request and reads the answer.
func ask(c *http.Client, u string) error {
	resp, err := c.Get(u)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
