package chaos

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// client is a crawler that sends one request after the other to one site through one abide.
type client struct {
	world   *world
	name    string
	abide   *abide
	site    *site
	random  *rand.Rand
	think   time.Duration // at most, between two requests
	leaves  float64       // part of the requests that it does not wait for
	h2      bool
	conn    net.Conn // of plain requests; nil: none
	from    *bufio.Reader
	life    int64        // of the abide to which conn leads
	opened  *http.Client // of https
	answers int          // that were right
}

// run sends requests until the world says that it is enough.
func (c *client) run() {
	defer c.hangUp()
	for n := 0; c.world.ctx.Err() == nil; n++ {
		before := c.answers
		c.one(fmt.Sprintf("%s-%d", c.name, n))
		think := c.think
		if c.answers == before { // as crawlers do after a failure
			think += 2 * time.Second
		}
		clock.Sleep(c.world.ctx, time.Duration(c.random.Int64N(int64(think)+1)))
	}
}

func (c *client) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
	if c.opened != nil {
		c.opened.CloseIdleConnections()
	}
}

// patience is longer than any request may take.
const patience = 15 * time.Minute

// one sends a request and checks its answer.
func (c *client) one(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	leaves := c.random.Float64() < c.leaves
	if leaves {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.random.IntN(5000))*time.Millisecond)
		defer cancel()
	}
	if c.site.kind == echo {
		c.tunnel(ctx, id)
		return
	}
	if c.random.IntN(10) == 0 && !c.site.tls && !c.site.shares && c.site.kind != hostile {
		first, second := c.request(ctx, id+"a", "GET", c.random.IntN(2000), 0), c.request(ctx, id+"b", "GET", c.random.IntN(2000), 0)
		c.exchange(ctx, c.plain, leaves, first, second)
		return
	}
	method, size, up := "GET", c.random.IntN(2000), 0
	switch c.random.IntN(9) {
	case 0:
		size = c.random.IntN(40_000)
	case 1, 2:
		method, up = "POST", c.random.IntN(3000)
	case 3:
		method, up = "PUT", c.random.IntN(20_000)
	case 4:
		method = "HEAD"
	}
	if c.site.shares {
		page := c.random.IntN(6)
		id, method, size, up = fmt.Sprintf("page-%d", page), "GET", page*300, 0
	}
	r := c.request(ctx, id, method, size, up)
	if c.random.IntN(12) == 0 {
		r.Header.Set("Abide-Max-Wait", "2s")
	}
	send := c.plain
	if c.site.tls {
		send = c.secure
	}
	c.exchange(ctx, send, leaves, r)
}

// request makes a request for an answer of a size, with a body of a size.
func (c *client) request(ctx context.Context, id, method string, size, up int) *http.Request {
	scheme := "http"
	if c.site.tls {
		scheme = "https"
	}
	var body io.Reader
	if up > 0 {
		body = strings.NewReader(text("up "+id, up))
		if c.random.IntN(3) == 0 {
			body = struct{ io.Reader }{body} // of a length that is not known
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s://%s/%s?size=%d", scheme, c.site.host, id, size), body)
	c.world.check(err)
	if !c.site.shares {
		r.Header.Set("X-Id", id)
	}
	if up > 0 {
		r.Header.Set("X-Size", fmt.Sprint(up))
		if c.random.IntN(6) == 0 {
			r.Header.Set("Expect", "100-continue")
		}
	}
	return r
}

// sender sends requests and returns their answers, in order, up to the first that fails.
type sender func(ctx context.Context, all []*http.Request) ([]answer, error)

// answer is an answer with its body.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// exchange sends requests and checks their answers.
func (c *client) exchange(ctx context.Context, send sender, leaves bool, all ...*http.Request) {
	for range all {
		c.site.begin()
		defer c.site.end()
	}
	began, life := time.Now(), c.abide.life.Load()
	answers, err := send(ctx, all)
	if leaves && ctx.Err() != nil {
		return
	}
	o := outcome{
		client: c, began: began, excused: c.world.mayFail(began) || c.site.kind == hostile,
		restarted: life != c.abide.life.Load() || c.abide.stopped.Load(),
	}
	for i, r := range all {
		if i < len(answers) {
			o.check(r, answers[i])
		} else {
			o.missing(r, err, ctx.Err() != nil)
		}
	}
}

// outcome is what has become of requests that were sent together.
type outcome struct {
	client    *client
	began     time.Time
	excused   bool // there were faults, or the site is hostile
	restarted bool // the abide was stopped meanwhile
}

func (o *outcome) complain(r *http.Request, format string, args ...any) {
	o.client.world.fault("%s %s, sent after %v by %s to %s: %s", r.Method, r.URL, o.began.Sub(o.client.world.began), o.client.name, o.client.abide.name, fmt.Sprintf(format, args...))
}

// reached reports whether a site has taken the request on, long enough before a stop that it is
// answered.
func (o *outcome) reached(r *http.Request) bool {
	s := o.client.site
	s.mu.Lock()
	defer s.mu.Unlock()
	_, done := s.done[idOf(r)]
	return done && !s.shares && !o.excused && !o.ends()
}

// ends reports whether the abide may cut the request, since it stops and timeouts.drain is nearly over.
func (o *outcome) ends() bool { return o.restarted && time.Since(o.began) >= 9*time.Second }

// missing checks a request that has no answer.
func (o *outcome) missing(r *http.Request, err error, late bool) {
	switch {
	case late, !o.excused && !o.restarted:
		o.complain(r, "no answer after %v: %v", time.Since(o.began), err)
	case o.reached(r):
		o.complain(r, "the site has it, and its answer is lost: %v", err)
	}
}

// check checks an answer.
func (o *outcome) check(r *http.Request, a answer) {
	c, id, want := o.client, idOf(r), text(idOf(r), number(r.URL.Query().Get("size")))
	if r.Method == "HEAD" {
		want = ""
	}
	switch {
	case strings.HasPrefix(a.Header.Get("Proxy-Status"), "abide"):
		o.refused(r, a)
	case a.err != nil:
		if !o.excused && !o.ends() {
			o.complain(r, "the answer is not whole: %v", a.err)
		}
	case a.StatusCode == http.StatusOK:
		if it := a.Header.Get("X-Id"); it != id || a.body != want {
			o.complain(r, "the answer is that to %q, with %d bytes, not %d: %.80q", it, len(a.body), len(want), a.body)
		}
		c.answers++
	case a.StatusCode == http.StatusNoContent && c.site.kind == hostile:
		if it := a.Header.Get("X-Id"); it != id {
			o.complain(r, "the answer is that to %q", it)
		}
	case !o.excused:
		o.complain(r, "status %d", a.StatusCode)
	}
}

// refused checks a refusal of abide's own.
func (o *outcome) refused(r *http.Request, a answer) {
	wait, draining := r.Header.Get("Abide-Max-Wait") != "" && strings.Contains(a.body, `"urn:abide:wait"`), strings.Contains(a.body, `"urn:abide:draining"`)
	if r.Method == "HEAD" {
		wait, draining = r.Header.Get("Abide-Max-Wait") != "", strings.Contains(a.Header.Get("Proxy-Status"), `"draining"`)
	}
	switch {
	case wait:
		if took := time.Since(o.began); took > 4*time.Second && !o.excused {
			o.complain(r, "abide refuses after %v, although the request says that it waits for 2s: %.300q", took, a.body)
		}
	case draining && o.reached(r):
		o.complain(r, "the site has it, and abide refuses it: %.300q", a.body)
	case !o.excused && (!o.restarted || !draining):
		o.complain(r, "abide refuses: %d %s: %.300q", a.StatusCode, a.Header.Get("Proxy-Status"), a.body)
	}
	for _, never := range []string{"bug", "malformed", "bad_target", "bad_body", "never", "queue"} {
		if strings.Contains(a.Header.Get("Proxy-Status"), fmt.Sprintf("details=%q", never)) {
			o.complain(r, "abide refuses, which it never may: %.600q", a.body)
		}
	}
	o.client.world.count(a.Header.Get("Proxy-Status"))
}

// plain sends requests in the open, one right after the other, on a connection of its own.
func (c *client) plain(ctx context.Context, all []*http.Request) (answers []answer, err error) {
	hangUp := func(err error) ([]answer, error) {
		if c.conn != nil {
			c.conn.Close()
			c.conn = nil
		}
		return answers, err
	}
	if c.conn != nil && c.from.Buffered() > 0 {
		rest, _ := c.from.Peek(c.from.Buffered())
		c.world.fault("%s: %d bytes more than the answer: %.100q", c.name, len(rest), rest)
		hangUp(nil)
	}
	if life := c.abide.life.Load(); life != c.life { // the connection was one of the life before
		hangUp(nil)
		c.life = life
	}
	if c.conn == nil {
		nc, err := c.abide.reach(ctx, false)
		if err != nil {
			return nil, err
		}
		c.conn, c.from = nc, bufio.NewReader(nc)
	}
	nc := c.conn
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			hangUp(nil)
		}
	}()
	var text bytes.Buffer
	for _, r := range all {
		c.world.check(r.WriteProxy(&text))
	}
	part, patient := text.Len(), all[0].Header.Get("Abide-Max-Wait") == ""
	if patient && c.random.IntN(10) == 0 { // it is slow
		part = c.random.IntN(part)
	}
	rest := time.Duration(c.random.IntN(3000)) * time.Millisecond
	written := make(chan error, 1)
	go func() {
		_, err := nc.Write(text.Bytes()[:part])
		if err == nil && part < text.Len() && clock.Sleep(ctx, rest) == nil {
			_, err = nc.Write(text.Bytes()[part:])
		}
		written <- err
	}()
	defer func() { <-written }()
	for _, r := range all {
		var resp *http.Response
		for resp == nil || resp.StatusCode < 200 {
			if resp, err = http.ReadResponse(c.from, r); err != nil {
				return hangUp(err)
			}
		}
		if patient && c.random.IntN(20) == 0 {
			clock.Sleep(ctx, time.Duration(c.random.IntN(2000))*time.Millisecond)
		}
		body, err := io.ReadAll(resp.Body)
		answers = append(answers, answer{resp, string(body), err})
		if err != nil || resp.Close {
			return hangUp(err)
		}
	}
	return answers, nil
}

// secure sends a request by https, which abide opens.
func (c *client) secure(_ context.Context, all []*http.Request) ([]answer, error) {
	if c.opened == nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(c.world.authority.PEM())
		c.opened = &http.Client{Transport: &http.Transport{
			Proxy:             func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.abide.reach(ctx, true) },
			TLSClientConfig:   &tls.Config{RootCAs: trusted},
			ForceAttemptHTTP2: c.h2,
		}}
	}
	resp, err := c.opened.Do(all[0])
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return []answer{{resp, string(body), err}}, nil
}

// tunnel sends bytes through a tunnel to a site that sends them back.
func (c *client) tunnel(ctx context.Context, id string) {
	began, life := time.Now(), c.abide.life.Load()
	fails := func(format string, args ...any) {
		if ctx.Err() != nil && time.Since(began) < patience || life != c.abide.life.Load() || c.abide.stopped.Load() || c.world.mayFail(began) {
			return
		}
		c.world.fault("tunnel %s: %s", id, fmt.Sprintf(format, args...))
	}
	nc, err := c.abide.reach(ctx, c.site.tls)
	if err != nil {
		fails("%v", err)
		return
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fmt.Fprintf(nc, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", c.site.name())
	from := bufio.NewReader(nc)
	resp, err := http.ReadResponse(from, &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != http.StatusOK {
		fails("the CONNECT fails: %v %v", resp, err)
		return
	}
	sent := "\x00" + text(id, c.random.IntN(80_000))
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(nc, sent)
		if err == nil {
			err = nc.(*conn).CloseWrite()
		}
		written <- err
	}()
	got, err := io.ReadAll(from)
	if !strings.HasPrefix(sent, string(got)) {
		c.world.fault("tunnel %s: other bytes have come back", id)
	}
	nc.Close()
	if wrote := <-written; err != nil || wrote != nil || len(got) != len(sent) {
		fails("%d of %d bytes have come back: %v, %v", len(got), len(sent), err, wrote)
		return
	}
	c.answers++
}
