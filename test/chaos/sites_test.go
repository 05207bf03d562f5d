package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// kind says how a site behaves.
type kind int

const (
	obedient  kind = iota // has the limit that the configuration names, and counts itself
	announced             // announces a limit that nobody has configured, and refuses beyond it
	silent                // refuses beyond its limit, and names only the time until then
	hostile               // answers with what is no HTTP, too much, too little or too late
	echo                  // sends back what a tunnel brings
)

// arrival is a request that has reached a site.
type arrival struct {
	at, sent time.Time
	token    string
}

// site is one host, with what it has seen.
type site struct {
	world *world
	host  string
	port  string

	address netip.Addr
	tls     bool
	h1      bool // does not speak HTTP/2
	kind    kind
	as      string // the kind of its limit
	amount  int
	window  time.Duration
	pool    bool // the limit is each token's
	shares  bool // identical requests share an answer

	mu       sync.Mutex
	arrivals []arrival
	done     map[string]string // :: id → method, of requests that were not refused
	refusals int
	flaky    time.Time     // until when it fails at random
	delayed  bool          // requests have come later than they were sent
	named    time.Duration // the longest time that was ever named
	waiting  int           // requests of clients that have no answer
	progress time.Time     // when a request arrived last, or the first began to wait
	still    time.Duration // the longest time without one while some were waiting

	flying int // requests that are not answered
	most   int // flying at the same time

	close func(gently bool)
}

func (s *site) name() string { return s.host + ":" + s.port }

// rule is the entry of sites in the configuration; "" where there is none.
func (s *site) rule(amount int) string {
	if s.kind != obedient {
		return ""
	}
	rest, more := "", ""
	if s.pool {
		rest, more = ", by: token", ", pool: keys, insecure: true"
	}
	if s.shares {
		more += ", coalesce: true"
	}
	limit := fmt.Sprintf("{requests: %d, per: %v, as: %s%s}", amount, s.window, s.as, rest)
	switch s.as {
	case "bucket":
		limit = fmt.Sprintf("{requests: %d, per: %v, as: bucket, burst: %d%s}", amount, s.window, burst, rest)
	case "concurrency":
		limit = fmt.Sprintf("{concurrency: %d}", amount)
	}
	return fmt.Sprintf("  - {host: %s%s, outage: %s, limits: [%s]}\n", s.host, more, s.world.outage, limit)
}

// burst is that of each bucket.
const burst = 4

// serve starts the site.
func (s *site) serve() {
	w := s.world
	l := w.net.listen(s.name(), netip.AddrPortFrom(s.address, 80).String())
	var running sync.WaitGroup
	if s.kind == hostile || s.kind == echo {
		answer := s.answerHostile
		if s.kind == echo {
			answer = s.repeat
		}
		running.Go(func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				running.Go(func() {
					defer nc.Close()
					answer(nc.(*conn))
				})
			}
		})
		s.close = func(bool) {
			l.Close()
			for _, c := range w.net.connsTo(s.name()) {
				c.reset()
			}
			running.Wait()
		}
		return
	}
	server := &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			if t, ok := nc.(*tls.Conn); ok {
				nc = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, nc)
		},
	}
	if s.tls {
		config, err := w.roots.TLSConfig(s.host)
		w.check(err)
		server.TLSConfig = config.Clone()
		server.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
		if s.h1 {
			server.TLSConfig.NextProtos = []string{"http/1.1"}
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		}
		running.Go(func() { server.ServeTLS(l, "", "") })
	} else {
		running.Go(func() { server.Serve(l) })
	}
	s.close = func(gently bool) {
		if gently {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			server.Shutdown(ctx)
		}
		server.Close()
		running.Wait()
	}
}

type connKey struct{}

// begin records that a request of a client waits.
func (s *site) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		s.progress = time.Now()
	}
	s.waiting++
}

// end records that a request has its answer.
func (s *site) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves()
	s.waiting--
}

// moves notes for how long nothing has arrived. The caller holds mu.
func (s *site) moves() {
	now := time.Now()
	since := s.progress
	if disturbed := s.world.disturbedUntil(); disturbed.After(since) {
		since = disturbed
	}
	if s.waiting > 0 {
		s.still = max(s.still, now.Sub(since))
	}
	s.progress = now
}

// arrive records a request. It returns false when the site's limit refuses it, and when the
// next may go.
func (s *site) arrive(r *http.Request, sent time.Time) (accepted bool, next time.Duration, left int) {
	now := time.Now()
	id, token := idOf(r), r.Header.Get("Authorization")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves()
	if method, ok := s.done[id]; ok && method == "POST" {
		s.world.fault("%s: the POST %s has arrived again, although it was not refused", s.host, id)
	}
	if s.kind == announced || s.kind == silent {
		used := 0
		begin := now.Truncate(s.window)
		next = begin.Add(s.window).Sub(now)
		for _, a := range slices.Backward(s.arrivals) {
			if s.kind == announced && a.at.Before(begin) || s.kind == silent && now.Sub(a.at) >= s.window {
				break
			}
			if used++; used == s.amount && s.kind == silent {
				next = a.at.Add(s.window).Sub(now)
			}
		}
		if left = s.amount - used - 1; left < 0 {
			s.refusals++
			s.named = max(s.named, next+time.Second)
			return false, next, 0
		}
	}
	s.done[id] = r.Method
	s.arrivals = append(s.arrivals, arrival{now, sent, token})
	return true, next, left
}

// idOf returns what a request is called, which is its page where it has no id of its own.
func idOf(r *http.Request) string {
	if id := r.Header.Get("X-Id"); id != "" {
		return id
	}
	return r.URL.Path[1:]
}

// ServeHTTP answers a request with a text that names it.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connKey{}).(*conn)
	c.in.mu.Lock()
	sent := c.in.lastSent
	c.in.mu.Unlock()
	if r.ProtoMajor == 2 {
		sent = time.Time{} // of another request, perhaps
	}
	accepted, next, left := s.arrive(r, sent)
	id := idOf(r)
	if s.kind == announced {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(s.amount))
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(next).Unix(), 10))
	}
	if !accepted {
		w.Header().Set("Retry-After", strconv.Itoa(int((next+time.Second-1)/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.mu.Lock()
	s.flying++
	s.most = max(s.most, s.flying)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
	}()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if want := r.Header.Get("X-Size"); want != "" && string(body) != text("up "+id, number(want)) {
		s.world.fault("%s: the request %s has come with another body, of %d bytes, not %s", s.host, id, len(body), want)
	}
	size := number(r.URL.Query().Get("size"))
	answer := text(id, size)
	w.Header().Set("X-Id", id)
	s.mu.Lock()
	flaky := time.Now().Before(s.flaky)
	s.mu.Unlock()
	choice := 100
	if flaky {
		choice = s.world.net.within(100)
	}
	switch {
	case choice < 10: // the answer never begins
		panic(http.ErrAbortHandler)
	case choice < 20:
		w.WriteHeader([]int{500, 502, 503, 504}[s.world.net.within(4)])
		return
	case choice < 30: // the answer never ends
		w.Header().Set("Content-Length", strconv.Itoa(size))
		io.WriteString(w, answer[:size/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case choice < 35: // the answer takes longer than abide waits
		clock.Sleep(r.Context(), time.Minute)
		panic(http.ErrAbortHandler)
	}
	clock.Sleep(r.Context(), time.Duration(s.world.net.within(80))*time.Millisecond)
	if s.world.net.within(2) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(size))
	}
	part := size
	if r.Method != "HEAD" && s.world.net.within(4) == 0 {
		part = s.world.net.within(size)
	}
	io.WriteString(w, answer[:part])
	if part < size {
		http.NewResponseController(w).Flush()
		clock.Sleep(r.Context(), time.Duration(s.world.net.within(300))*time.Millisecond)
		io.WriteString(w, answer[part:])
	}
}

// repeat sends back what comes.
func (s *site) repeat(c *conn) {
	if _, err := io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}); err == nil {
		c.CloseWrite()
		io.Copy(io.Discard, struct{ io.Reader }{c})
	}
}

// answerHostile answers the requests of a connection as no server should.
func (s *site) answerHostile(c *conn) {
	from := bufio.NewReader(struct{ io.Reader }{c})
	net := s.world.net
	for {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		s.arrive(r, time.Time{})
		io.Copy(io.Discard, r.Body)
		id, size := r.Header.Get("X-Id"), number(r.URL.Query().Get("size"))
		body := text(id, size)
		if r.Method == "HEAD" {
			body = ""
		}
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %s\r\n", id)
		whole := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
		evil := "HTTP/1.1 200 OK\r\nX-Id: evil\r\nContent-Length: 4\r\n\r\nevil"
		write := func(answer string) bool {
			_, err := c.Write([]byte(answer))
			return err == nil
		}
		switch net.within(16) {
		case 0: // another answer in the same packet
			if len(whole) > 4000 {
				return
			}
			c.writeSome([]byte(whole + evil))
			continue
		case 1: // less than announced
			write(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body)+10, body))
			return
		case 2:
			write(head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx")
			return
		case 3:
			write("\x16\x03\x01 this is no HTTP\r\n\r\n")
			return
		case 4:
			return
		case 5: // much before the answer
			if !write(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n", 3) + whole) {
				return
			}
			continue
		case 6: // a head without an end
			for range 40 {
				if !write("X-Long: " + strings.Repeat("x", 16<<10) + "\r\n") {
					return
				}
			}
			return
		case 7: // an end by the connection
			write(strings.Replace(head, "1.1", "1.0", 1) + "\r\n" + body)
			return
		case 8: // two lengths
			write(fmt.Sprintf("%sContent-Length: %d\r\nContent-Length: %d\r\n\r\n%s", head, len(body), len(body)+1, body))
			return
		case 9: // no body, and yet one
			c.writeSome([]byte("HTTP/1.1 204 No Content\r\nX-Id: " + id + "\r\n\r\n" + evil))
			continue
		case 10: // one byte after the other
			for _, b := range []byte(whole[:min(len(whole), 40)]) {
				if !write(string(b)) || clock.Sleep(s.world.ctx, 50*time.Millisecond) != nil {
					return
				}
			}
			if !write(whole[min(len(whole), 40):]) {
				return
			}
			continue
		case 11:
			write(whole[:len(whole)/2])
			c.reset()
			return
		case 12: // nothing for a while
			clock.Sleep(s.world.ctx, time.Duration(net.within(20))*time.Second)
		case 13: // a part of a chunk
			write(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", head, len(body)+1, body))
			return
		}
		if !write(whole) {
			return
		}
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// text returns a text that no other id has.
func text(id string, size int) string {
	if size == 0 {
		return ""
	}
	line := id + "\n"
	return strings.Repeat(line, size/len(line)+1)[:size]
}

// over returns the most requests more than its limit that a site has seen, by the time at
// which they came or were sent, and when there was the first.
func (s *site) over(when func(arrival) time.Time) (over int, at time.Time) {
	times := map[string][]time.Time{}
	for _, a := range s.arrivals {
		if t := when(a); !t.IsZero() {
			times[a.token] = append(times[a.token], t)
		}
	}
	for _, list := range times {
		slices.SortFunc(list, time.Time.Compare)
		from, level, last := 0, float64(burst), list[0]
		for i, t := range list {
			n := 0
			switch s.as {
			case "bucket":
				level = min(level+float64(t.Sub(last))/float64(s.window)*float64(s.amount), burst) - 1
				last = t
				n = int(math.Ceil(-level - 1e-6))
			case "paced":
				if i > 0 && t.Sub(list[i-1]) < s.window/time.Duration(s.amount) {
					n = 1
				}
			default:
				for s.as == "fixed" && s.number(list[from]) != s.number(t) || s.as == "rolling" && t.Sub(list[from]) >= s.window {
					from++
				}
				if s.as == "first-use" && t.Sub(list[from]) >= s.window {
					from = i
				}
				n = i - from + 1 - s.amount
			}
			if over == 0 && n > 0 {
				at = t // the first time
			}
			over = max(over, n)
		}
	}
	return over, at
}

// number returns the number of a window since 1970.
func (s *site) number(t time.Time) int64 { return t.UnixNano() / int64(s.window) }

// count returns the number of requests that arrived between two times.
func (s *site) count(from, to time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arrivals {
		if !a.at.Before(from) && a.at.Before(to) {
			n++
		}
	}
	return n
}
