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
// for each token, or hides them.
type announced struct {
	instances int
	store     bool
	hidden    bool
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
	hiddenWindows    = 9 // it takes a while to find what is hidden
)

func (m *announced) windows() int64 {
	if m.hidden {
		return hiddenWindows
	}
	return announcedWindows
}

// quotaSite is a site that gives each token so many requests in each window of its clock,
// says so with each answer unless it hides that, and refuses what is more.
type quotaSite struct {
	host   string
	hides  bool
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

func newQuotaSite(host string, hides bool) (*quotaSite, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &quotaSite{
		host: host, hides: hides, at: l.Addr().String(), ended: make(chan struct{}),
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
	if s.hides {
		if n > announcedAmount {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return
	}
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
func (s *quotaSite) judge(m *announced, first int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	windows := m.windows()
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
func (b *bed) announce(ctx context.Context, m announced) (announced, error) {
	defer b.clear()
	site, err := newQuotaSite("site.test", m.hidden)
	if err != nil {
		return m, err
	}
	defer site.close()
	url := ""
	if m.store {
		r, err := b.redisAt(ctx)
		if err != nil {
			return m, err
		}
		url = r.url()
	}
	var members []*member
	for range m.instances {
		item, err := b.memberAt(ctx, url, []rule{{origin: &origin{host: site.host, at: site.at}, tokens: announcedTokens}})
		if err != nil {
			return m, err
		}
		members = append(members, item)
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
	err = until(ctx, from.Add(time.Duration(m.windows())*announcedWindow))
	stop()
	all.Wait()
	site.judge(&m, from.UnixNano()/int64(announcedWindow))
	return m, err
}

// announces measures all that are wanted.
func (b *bed) announces(ctx context.Context, wants func(string) bool, say func(string, ...any)) (list []announced, err error) {
	for _, hidden := range []bool{false, true} {
		for _, shared := range []bool{true, false} {
			for _, n := range []int{1, 4, 12} {
				m := announced{instances: n, store: shared, hidden: hidden}
				name := m.name()
				if !wants(name) {
					continue
				}
				if m, err = b.announce(ctx, m); err != nil {
					return list, fmt.Errorf("announced: %w", err)
				}
				say("%s: %d refused, %d after the first window, at most %d of %d in a window, used %.1f %%",
					name, m.refused, m.later, m.most, announcedAmount, 100*m.used)
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// name is that of a row: "announced 4 on Redis", "announced hidden 12 without a store".
func (m *announced) name() string {
	name := "announced "
	if m.hidden {
		name += "hidden "
	}
	name += strconv.Itoa(m.instances)
	if m.store {
		return name + " on Redis"
	}
	return name + " without a store"
}
