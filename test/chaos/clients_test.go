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
		pause(c.world.ctx, time.Duration(c.random.Int64N(int64(think)+1)))
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
	method, size, up := "GET", c.random.IntN(2000), 0
	switch c.random.IntN(8) {
	case 0:
		size = c.random.IntN(40_000)
	case 1, 2:
		method, up = "POST", c.random.IntN(3000)
	case 3:
		method, up = "PUT", c.random.IntN(20_000)
	}
	scheme := "http"
	if c.site.tls {
		scheme = "https"
	}
	var body io.Reader
	if up > 0 {
		body = strings.NewReader(text("up "+id, up))
	}
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s://%s/%s?size=%d", scheme, c.site.host, id, size), body)
	c.world.check(err)
	r.Header.Set("X-Id", id)
	if up > 0 {
		r.Header.Set("X-Size", fmt.Sprint(up))
	}
	c.site.begin()
	defer c.site.end()
	began, life := time.Now(), c.abide.life.Load()
	send := c.plain
	if c.site.tls {
		send = c.secure
	}
	resp, got, err := send(ctx, r)
	if leaves && ctx.Err() != nil {
		return
	}
	excused := life != c.abide.life.Load() || c.abide.stopped.Load() || c.world.mayFail(began) || c.site.kind == hostile
	complain := func(format string, args ...any) {
		c.world.fault("%s %s%s, sent after %v by %s: %s", method, c.site.host, r.URL.Path, began.Sub(c.world.began), c.abide.name, fmt.Sprintf(format, args...))
	}
	switch {
	case resp == nil:
		if !excused || ctx.Err() != nil {
			complain("no answer after %v: %v", time.Since(began), err)
		}
	case strings.HasPrefix(resp.Header.Get("Proxy-Status"), "abide"):
		c.refused(resp, got, excused, complain)
	case err != nil:
		if !excused {
			complain("the answer is not whole: %v", err)
		}
	case resp.StatusCode == http.StatusOK:
		if it := resp.Header.Get("X-Id"); it != id || got != text(id, size) {
			complain("the answer is that to %q, with %d bytes, not %d: %.80q", it, len(got), size, got)
		}
		c.answers++
	case resp.StatusCode == http.StatusNoContent && c.site.kind == hostile:
		if it := resp.Header.Get("X-Id"); it != id {
			complain("the answer is that to %q", it)
		}
	case !excused:
		complain("status %d", resp.StatusCode)
	}
}

// refused checks a refusal of abide's own.
func (c *client) refused(resp *http.Response, got string, excused bool, complain func(string, ...any)) {
	if !excused {
		complain("abide refuses: %d %s: %.300q", resp.StatusCode, resp.Header.Get("Proxy-Status"), got)
	}
	for _, never := range []string{"urn:abide:bug", "urn:abide:malformed", "urn:abide:bad_target", "urn:abide:bad_body", "urn:abide:never", "urn:abide:queue"} {
		if strings.Contains(got, never+`"`) {
			complain("abide refuses, which it never may: %.600q", got)
		}
	}
	c.world.count(resp.Header.Get("Proxy-Status"))
}

// plain sends a request in the open, on a connection of its own.
func (c *client) plain(ctx context.Context, r *http.Request) (*http.Response, string, error) {
	fails := func(err error) (*http.Response, string, error) {
		if c.conn != nil {
			c.conn.Close()
			c.conn = nil
		}
		return nil, "", err
	}
	if c.conn != nil && c.from.Buffered() > 0 {
		rest, _ := c.from.Peek(c.from.Buffered())
		c.world.fault("%s: %d bytes more than the answer: %.100q", c.name, len(rest), rest)
		fails(nil)
	}
	if c.conn == nil {
		nc, err := c.abide.reach(ctx, c.site.tls)
		if err != nil {
			return fails(err)
		}
		c.conn, c.from = nc, bufio.NewReader(nc)
	}
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var request bytes.Buffer
	c.world.check(r.WriteProxy(&request))
	written := make(chan error, 1)
	nc := c.conn
	go func() {
		_, err := nc.Write(request.Bytes())
		written <- err
	}()
	defer func() { <-written }()
	var resp *http.Response
	for resp == nil || resp.StatusCode < 200 {
		var err error
		if resp, err = http.ReadResponse(c.from, r); err != nil {
			nc.Close()
			return fails(err)
		}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Close {
		fails(err)
		nc.Close()
	}
	return resp, string(body), err
}

// secure sends a request by https, which abide opens.
func (c *client) secure(ctx context.Context, r *http.Request) (*http.Response, string, error) {
	if c.opened == nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(c.world.authority.PEM())
		c.opened = &http.Client{Transport: &http.Transport{
			Proxy:             func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.abide.reach(ctx, c.site.tls) },
			TLSClientConfig:   &tls.Config{RootCAs: trusted},
			ForceAttemptHTTP2: c.h2,
		}}
	}
	resp, err := c.opened.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
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
