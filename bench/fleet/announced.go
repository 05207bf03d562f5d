//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// announced is how a fleet keeps to limits that nobody wrote down: a site announces them
// for each token.
type announced struct {
	instances int
	store     bool
	answered  int64 // requests that the site served
	refused   int64
	later     int64 // of these, after the first window
	most      int64 // requests of one token in a window, refused ones included
	used      float64
}

const (
	announcedTokens  = 3
	announcedAmount  = 60
	announcedWindow  = 20 * time.Second
	announcedWindows = 5
)

// quotaSite is a site that gives each token so many requests in each window of its clock,
// says so with each answer, and refuses what is more.
type quotaSite struct {
	host   string
	at     string
	server *http.Server
	ended  chan struct{}

	mu      sync.Mutex
	windows map[quotaKey]int64 // guarded by mu
	refused map[int64]int64    // guarded by mu; :: window
}

type quotaKey struct {
	token  string
	window int64
}

func newQuotaSite(host string) (*quotaSite, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &quotaSite{
		host: host, at: l.Addr().String(), ended: make(chan struct{}),
		windows: map[quotaKey]int64{}, refused: map[int64]int64{},
	}
	s.server = &http.Server{Handler: s}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(l)
	}()
	return s, nil
}

func (s *quotaSite) close() {
	_ = s.server.Close()
	<-s.ended
}

func (s *quotaSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	window := now.UnixNano() / int64(announcedWindow)
	key := quotaKey{r.Header.Get("Authorization"), window}
	s.mu.Lock()
	s.windows[key]++
	n := s.windows[key]
	if n > announcedAmount {
		s.refused[window]++
	}
	s.mu.Unlock()
	reset := time.Unix(0, (window+1)*int64(announcedWindow))
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(announcedAmount))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(announcedAmount-n, 0), 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	if n > announcedAmount {
		h.Set("Retry-After", strconv.Itoa(int(time.Until(reset)/time.Second)+1))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// judge fills in what the site saw from a window on, of so many.
func (s *quotaSite) judge(m *announced, first, windows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.windows {
		if key.window >= first && key.window < first+windows {
			m.answered += min(n, announcedAmount)
			m.most = max(m.most, n)
		}
	}
	for window, n := range s.refused {
		m.refused += n
		if window > first {
			m.later += n
		}
	}
	m.used = float64(m.answered) / float64(windows*announcedTokens*announcedAmount)
}

// announce measures one.
func (b *bed) announce(ctx context.Context, instances int, shared bool) (announced, error) {
	defer b.clear()
	m := announced{instances: instances, store: shared}
	site, err := newQuotaSite("site.test")
	if err != nil {
		return m, err
	}
	defer site.close()
	url := ""
	if shared {
		r, err := b.redisAt(ctx)
		if err != nil {
			return m, err
		}
		url = r.url()
	}
	var members []*member
	for range instances {
		one, err := b.memberAt(ctx, url, []rule{{origin: &origin{host: site.host, at: site.at}, tokens: announcedTokens}})
		if err != nil {
			return m, err
		}
		members = append(members, one)
	}
	pause(ctx, 3500*time.Millisecond) // a store that is new gives nothing at first
	from := time.Now().Truncate(announcedWindow).Add(announcedWindow)
	if err := until(ctx, from.Add(100*time.Millisecond)); err != nil {
		return m, err
	}
	work, stop := context.WithCancel(ctx)
	// One and a half times of what there is.
	c := &crowd{host: site.host, members: members, sessions: 12, length: 50, parallel: 4, think: 3500 * time.Millisecond}
	var all sync.WaitGroup
	all.Go(func() { c.run(work) })
	err = until(ctx, from.Add(announcedWindows*announcedWindow))
	stop()
	all.Wait()
	site.judge(&m, from.UnixNano()/int64(announcedWindow), announcedWindows)
	return m, err
}

// announces measures all that are wanted.
func (b *bed) announces(ctx context.Context, wants func(string) bool, say func(string, ...any)) (list []announced, err error) {
	for _, shared := range []bool{true, false} {
		for _, n := range []int{1, 4, 12} {
			name := "announced " + strconv.Itoa(n)
			if !shared {
				name += " without a store"
			}
			if !wants(name) {
				continue
			}
			m, err := b.announce(ctx, n, shared)
			if err != nil {
				return list, fmt.Errorf("announced: %w", err)
			}
			say("%s: %d refused, %d after the first window, at most %d of %d in a window, used %.1f %%",
				name, m.refused, m.later, m.most, announcedAmount, 100*m.used)
			list = append(list, m)
		}
	}
	return list, nil
}
