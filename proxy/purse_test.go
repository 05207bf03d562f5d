package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// known is how many purses there are.
func (a *purses) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.known)
}

// pursed are a server's purses for some sites, which nobody has any more.
func pursed(t *testing.T, n int, lines ...string) *bed {
	t.Helper()
	b := newBed(t, lines...)
	for i := range n {
		name := fmt.Sprintf("h%d.test", i)
		to := policy.Target{Scheme: "https", Host: name, Port: 443}
		p := b.server.stint(name, to, fmt.Sprint("c", i%10))
		if _, err := p.Credit(nil, 1000); err != nil {
			t.Fatal(err)
		}
		b.server.purses.leave(p)
	}
	return b
}

func TestPursesThatNobodyHasAreForgotten(t *testing.T) {
	b := pursed(t, 2_000, "sites:\n  - {host: \"*.test\", limits: [{bytes: 1MB, per: 1m}]}")
	kept := b.server.stint("kept.test", policy.Target{Scheme: "https", Host: "kept.test", Port: 443}, "")
	if n := b.server.purses.count(); n != 2_001 {
		t.Errorf("there are %d", n)
	}
	b.server.purses.tidy(time.Minute)
	if n := b.server.purses.count(); n != 2_001 {
		t.Errorf("%d are left that were used a moment ago", n)
	}
	b.server.purses.tidy(-restOfPurse)
	if n := b.server.purses.count(); n != 1 {
		t.Errorf("%d are left", n)
	}
	if got, err := kept.Credit(nil, 500); got != 500 || err != nil {
		t.Errorf("one that is in use: %d, %v", got, err)
	}
	b.server.purses.leave(kept)
}

// Strangers choose hosts and paths, so there are not more purses than are in use.
func TestPursesAreBounded(t *testing.T) {
	b := pursed(t, mostPurses, "sites:\n  - {host: \"*.test\", limits: [{bytes: 1MB, per: 1m}]}")
	long := int64(sinceStart() - 4*trickleEvery)
	b.server.purses.mu.Lock()
	for _, p := range b.server.purses.known {
		p.used.Store(long)
	}
	b.server.purses.mu.Unlock()
	p := b.server.stint("one.test", policy.Target{Scheme: "https", Host: "one.test", Port: 443}, "")
	if n := b.server.purses.count(); n != 1 {
		t.Errorf("there are %d", n)
	}
	b.server.purses.leave(p)
}

// A purse that was closed, or whose server stops, has whoever asks give up and not
// ask for ever.
func TestAPurseThatIsOverGivesNothing(t *testing.T) {
	b := newBed(t, limitsOf("{bytes: 10kB, per: 1d, as: bucket}"))
	to := policy.Target{Scheme: "https", Host: host, Port: 443}
	closed := b.server.stint(host, to, "")
	b.server.purses.leave(closed)
	b.server.purses.tidy(-restOfPurse)
	began := time.Now()
	if n, err := closed.Credit(nil, 10); !errors.Is(err, queue.ErrGone) {
		t.Errorf("%d, %v", n, err)
	}
	p := b.server.stint(host, to, "")
	defer b.server.purses.leave(p)
	if n, err := p.Credit(nil, 1<<20); n != 9_900 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	waits := make(chan error)
	go func() {
		_, err := p.Credit(nil, 100)
		waits <- err
	}()
	b.server.gate.Close()
	var no *queue.Refusal
	if err := <-waits; !errors.As(err, &no) || no.Reason != queue.Draining || time.Since(began) > trickleEvery {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestWhoLeavesAPurseThatWaitsIsLetGo(t *testing.T) {
	b := newBed(t, limitsOf("{bytes: 10kB, per: 1d, as: bucket}"))
	p := b.server.stint(host, policy.Target{Scheme: "https", Host: host, Port: 443}, "")
	defer b.server.purses.leave(p)
	must(t, second(p.Credit(nil, 1<<20)))
	done, waits := make(chan struct{}), make(chan error)
	go func() { waits <- second(p.Credit(done, 100)) }()
	close(done)
	if err := <-waits; !errors.Is(err, queue.ErrGone) {
		t.Error(err)
	}
	if len(p.still) != 0 {
		t.Error("it is remembered")
	}
}

func second[T any](_ T, err error) error { return err }

// What trickled and was not used goes back to where it came from, so that both
// together never give more than the limit.
func TestWhatTrickledIsGivenBackToTheTrickle(t *testing.T) {
	tricklesEvery(t, time.Millisecond)
	b := newBed(t, limitsOf("{bytes: 100kB, per: 1d, as: bucket, stall: 1h}"))
	p := b.server.stint(host, policy.Target{Scheme: "https", Host: host, Port: 443}, "")
	defer b.server.purses.leave(p)
	all := 0
	take := func(n int) int {
		t.Helper()
		got, err := p.Credit(nil, n)
		must(t, err)
		all += got
		return got
	}
	take(1 << 20)
	take(1000)
	if all != 99_000+trickleMost {
		t.Fatalf("%d in all", all)
	}
	p.Refund(trickleMost)
	if left := p.trickle.Left(); left < 999 { // a bucket may round
		t.Errorf("%d are left to trickle", left)
	}
	if left := p.tap.Left(); left != 0 {
		t.Errorf("%d came back where they did not come from", left)
	}
	p.Refund(500)
	if left := p.tap.Left(); left != 500 {
		t.Errorf("%d came back", left)
	}
}

// Whatever happens to requests, in the end only what has passed is gone.
func TestNoCreditIsLost(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		b := newBed(t, limitsOf("{bytes: 100MB, per: day}, {bytes: 90MB, per: day, by: client}"), "intercept: all", "retry: {attempts: 2, base: 1ms, max: 2ms}", atOnce)
		var failures atomic.Int64
		b.handle(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/fails":
				if failures.Add(1)%3 != 0 {
					panic(http.ErrAbortHandler)
				}
			case "/refused":
				if failures.Add(1)%2 != 0 {
					rw.Header().Set("Retry-After", "0")
					rw.WriteHeader(429)
				}
			case "/breaks":
				rw.Header().Set("Content-Length", "1000000")
				rw.Write(make([]byte, 50_000))
				panic(http.ErrAbortHandler)
			case "/long":
				flood(rw, r)
			case "/waits":
				<-r.Context().Done()
			case "/takes":
				io.Copy(io.Discard, r.Body)
			default:
				rw.Write(make([]byte, 10_000))
			}
		})
		c := b.client(true)
		base := scheme + "://" + host
		for _, path := range []string{"/", "/fails", "/refused", "/breaks", "/"} {
			resp, err := c.Get(base + path)
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		resp, err := c.Post(base+"/takes", "text/plain", strings.NewReader(strings.Repeat("x", 300_000)))
		must(t, err)
		resp.Body.Close()
		for _, path := range []string{"/long", "/waits"} {
			ctx, leave := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, "GET", base+path, nil)
			time.AfterFunc(20*time.Millisecond, leave)
			if resp, err := c.Do(r); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		var site metrics.SiteCount
		eventually(t, 20*time.Second, scheme+": all that is gone has passed", func() bool {
			for _, site = range b.metrics.Sites() {
				if site.Name == host {
					break
				}
			}
			for _, l := range b.server.WrittenLimits() {
				if l.Amount-l.Left != int64(site.In+site.Out) {
					return false
				}
			}
			return true
		})
		if site.In+site.Out < 300_000 {
			t.Errorf("%s: only %d bytes passed", scheme, site.In+site.Out)
		}
	}
}
