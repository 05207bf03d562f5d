package proxy

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// moodySite is a site that refuses, denies and delays tokens at random.
type moodySite struct {
	mu     sync.Mutex
	left   map[string]int
	ends   time.Time
	done   map[string]int // :: method and id of a request → times that it was done
	faults []string
}

func (s *moodySite) serve(rw http.ResponseWriter, r *http.Request) {
	id, token := r.URL.Query().Get("id"), secretOf(r)
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	if n := len(r.Header["Authorization"]); n != 1 || !strings.HasPrefix(token, "secret-") {
		s.faults = append(s.faults, fmt.Sprintf("%d credentials: %q", n, token))
	}
	if r.Method == "POST" && err == nil && string(body) != id {
		s.faults = append(s.faults, fmt.Sprintf("the body of %s is %q", id, body))
	}
	if now := time.Now(); !now.Before(s.ends) {
		s.left, s.ends = map[string]int{}, now.Add(time.Minute)
	}
	dead := token == "secret-3" && s.ends.Minute()%4 == 0
	s.left[token]++
	used, ends := s.left[token], s.ends
	mood := rand.IntN(100)
	ok := used <= 40 && !dead && mood >= 6
	if ok && err == nil {
		s.done[r.Method+" "+id]++
	}
	s.mu.Unlock()
	h := rw.Header()
	h.Set("Www-Authenticate", "Bearer "+token)
	h.Set("X-RateLimit-Limit", "40")
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(40-used, 0)))
	h.Set("X-RateLimit-Reset", strconv.Itoa(int(time.Until(ends).Seconds())+1))
	if mood%3 == 0 {
		h.Set("Link", "<"+token+">")
		rw.WriteHeader(103)
	}
	elapse(time.Duration(mood) * 10 * time.Millisecond)
	switch {
	case dead:
		rw.WriteHeader(401)
	case used > 40:
		h.Set("Retry-After", strconv.Itoa(int(time.Until(ends).Seconds())+1))
		rw.WriteHeader(429)
	case mood < 2:
		rw.WriteHeader(403)
	case mood < 4:
		h.Set("Retry-After", "3")
		rw.WriteHeader(429)
	case mood < 6:
		rw.WriteHeader(401)
	}
	fmt.Fprint(rw, "done ", id)
	if mood%5 == 0 {
		http.NewResponseController(rw).Flush()
		elapse(time.Second)
	}
}

const moodyPool = `
queue: {wait: 2h}
pools:
  p: {tokens: [TOKENS], limits: [{concurrency: 6, by: token}]}
sites:
  - {host: site.test, pool: p, insecure: true, coalesce: true}
`

func moodyWith(tokens ...string) string {
	list := make([]string, len(tokens))
	for i, one := range tokens {
		list[i] = fmt.Sprintf("{label: t%s, secret: secret-%s}", one, one)
	}
	return strings.Replace(moodyPool, "TOKENS", strings.Join(list, ", "), 1)
}

// Tokens come, go, are disabled, refused and denied while fifty clients crawl, some of which
// leave: no request is lost, done twice or left behind.
func TestACrowdWhoseTokensComeAndGo(t *testing.T) {
	site := &moodySite{done: map[string]int{}}
	bubble(t, site.serve, moodyWith("1", "2", "3"), func(w *bubbleProxy) {
		elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)))
		var all sync.WaitGroup
		end := time.Now().Add(10 * time.Minute)
		for i := range 50 {
			c := w.client()
			all.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					ctx, cancel := context.WithCancel(w.t.Context())
					hasty := n%7 == 3
					if hasty {
						cancel()
						ctx, cancel = context.WithTimeout(w.t.Context(), time.Duration(rand.IntN(3000))*time.Millisecond)
					}
					id := fmt.Sprint(i, "-", n)
					method, body := "GET", io.Reader(nil)
					if n%3 == 0 {
						method, body = "POST", strings.NewReader(id)
					}
					r, _ := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://site.test/%d?id=%s", i%9, id), body)
					r.Header.Set("Authorization", "Bearer of-the-client")
					resp, err := c.Do(r)
					if err != nil && !hasty {
						t.Error(err)
					}
					if err == nil {
						text, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						status := resp.StatusCode
						if !hasty && (err != nil || status != 200 && status != 401 && status != 403) {
							t.Error(status, string(text), err)
						}
						for name, values := range resp.Header {
							if strings.Contains(strings.Join(values, " "), "secret-") {
								t.Error("a client sees a secret in", name)
							}
						}
					}
					cancel()
				}
			})
		}
		all.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				elapse(time.Duration(rand.IntN(5000)) * time.Millisecond)
				switch n % 6 {
				case 0:
					w.reload(moodyWith("1", "2", "3", "4"))
				case 1:
					_ = w.server.SwitchToken("p", "t1", false)
				case 2:
					w.reload(moodyWith("3", "1"))
				case 3:
					_ = w.server.SwitchToken("p", "t3", false)
				case 4:
					_ = w.server.SwitchToken("p", "t1", true)
					_ = w.server.SwitchToken("p", "t3", true)
				case 5:
					w.reload(moodyWith("2", "1", "3"))
				}
				w.server.Limits()
				w.server.Pools()
			}
			for _, one := range []string{"t1", "t2", "t3"} {
				_ = w.server.SwitchToken("p", one, true)
			}
		})
		all.Wait()
		if at := time.Since(end); at > 30*time.Minute {
			t.Errorf("it ended %v late", at)
		}
		elapse(5 * time.Second)
		synctest.Wait()
		for _, one := range site.faults {
			t.Error(one)
		}
		for id, n := range site.done {
			// A GET that succeeded may be sent again to find out whether the site blocks.
			if n > 1 && (n > 3 || !strings.HasPrefix(id, "GET ")) {
				t.Errorf("%s was done %d times", id, n)
			}
		}
		if len(site.done) < 400 {
			t.Errorf("only %d were done", len(site.done))
		}
		if strings.Contains(w.log.String(), "secret-") {
			t.Error("the log shows a secret")
		}
		w.idle("site.test")
	})
}
