package upstream

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"
)

// NextHop is a proxy between this proxy and the sites. It is safe for concurrent use.
type NextHop struct {
	// URL is http://… or https://…; its user and password are sent as Basic credentials.
	URL    *url.URL
	Dialer *Dialer
	// Via names this process in the Via header: "1.1 abide".
	Via string
	TLS *tls.Config // for https; nil: the system's roots
	// Login keeps a wrong user or password from being sent again and again; nil: URL has none.
	Login *Login
}

const (
	// maxHopHeadBytes bounds the next hop's answer to CONNECT.
	maxHopHeadBytes = 32 << 10
	// defaultHopTimeout bounds the wait for that answer if the Dialer has no timeout.
	defaultHopTimeout = 30 * time.Second
)

var (
	errHopURL     = errors.New("the next hop is not an http or https URL with a host")
	errHopHead    = errors.New("the next hop's answer is longer than allowed")
	errHopRefused = errors.New("the next hop refused")
	errHopVia     = errors.New("the Via chain has a control character")
)

// Tunnel asks the next hop for a connection to host, and returns it like a dialed
// connection. The Guard checks what can be checked without resolving; a target in
// Dialer.Resolve is allowed, but the next hop decides on its address.
func (n *NextHop) Tunnel(ctx context.Context, host string, port uint16) (net.Conn, error) {
	if host == "" || !cleanHost(host) {
		return nil, &Error{Kind: invalid, Err: errHost}
	}
	via := JoinVia(ViaFrom(ctx), n.Via)
	if strings.ContainsAny(via, "\r\n\x00") {
		return nil, &Error{Kind: invalid, Err: errHopVia}
	}
	if err := n.Dialer.Check(host, port); err != nil {
		return nil, err
	}
	if err := n.Login.Begin(ctx); err != nil {
		return nil, err
	}
	tunnel, status, err := n.tunnel(ctx, joinHostPort(host, port), via)
	if refused := n.Login.End(status); refused != nil {
		return nil, refused
	}
	return tunnel, err
}

// tunnel dials the next hop and asks it for a connection. status is its answer, 0 for none. It stops when ctx ends.
func (n *NextHop) tunnel(ctx context.Context, authority, via string) (tunnel net.Conn, status int, err error) {
	nc, auth, err := n.Forward(ctx)
	if err != nil {
		return nil, 0, err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", authority, authority)
	if auth != "" {
		fmt.Fprintf(&head, "Proxy-Authorization: %s\r\n", auth)
	}
	if via != "" {
		fmt.Fprintf(&head, "Via: %s\r\n", via)
	}
	head.WriteString("\r\n")
	nc.SetDeadline(time.Now().Add(n.patience()))
	cut := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	tunnel, status, err = sendConnect(nc, head.String())
	if !cut() && err == nil {
		err = ctx.Err() // the connection has a past deadline and is unusable
	}
	if err != nil {
		nc.Close()
		return nil, status, hopError(ctx, err)
	}
	nc.SetDeadline(time.Time{})
	return tunnel, status, nil
}

// patience bounds the handshake with the next hop, and the wait for its answer to CONNECT.
func (n *NextHop) patience() time.Duration { return cmp.Or(n.Dialer.Timeout, defaultHopTimeout) }

// Forward opens a connection for requests with absolute targets. auth is the
// Proxy-Authorization that they need, or "".
func (n *NextHop) Forward(ctx context.Context) (conn net.Conn, auth string, err error) {
	host, port, err := hostPort(n.URL)
	if err != nil {
		return nil, "", &Error{Kind: Hop, Err: errHopURL}
	}
	nc, err := n.Dialer.dial(ctx, host, port, true)
	if err != nil {
		return nil, "", hopError(ctx, err)
	}
	if n.URL.Scheme == "https" {
		config := cmp.Or(n.TLS, &tls.Config{}).Clone()
		config.NextProtos = []string{"http/1.1"}
		if nc, err = handshakeTLS(ctx, nc, config, host, n.patience()); err != nil {
			return nil, "", hopError(ctx, err)
		}
	}
	if user := n.URL.User; user != nil {
		secret, _ := user.Password()
		auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+secret))
	}
	return nc, auth, nil
}

func sendConnect(nc net.Conn, head string) (tunnel net.Conn, status int, err error) {
	if _, err := io.WriteString(nc, head); err != nil {
		return nil, 0, err
	}
	limited := &io.LimitedReader{R: nc, N: maxHopHeadBytes}
	in := textproto.NewReader(bufio.NewReaderSize(limited, 1024))
	for {
		// The header of an answer to CONNECT frames no body (RFC 9110, 9.3.6), so it is ignored.
		code := 0
		line, err := in.ReadLine()
		if err == nil {
			_, code, _, err = parseStatus(line)
		}
		for err == nil && line != "" {
			line, err = in.ReadLine()
		}
		switch {
		case err != nil && limited.N == 0:
			return nil, 0, errHopHead
		case err != nil:
			return nil, 0, err
		case code >= 200 && code < 300:
			early, _ := in.R.Peek(in.R.Buffered())
			if len(early) == 0 {
				return nc, code, nil
			}
			return &bufferedConn{Conn: nc, buffered: append([]byte(nil), early...)}, code, nil
		case code >= 200 || code == 101:
			return nil, code, fmt.Errorf("%w: status %d", errHopRefused, code)
		}
		// An informational answer: the final answer follows.
	}
}

// hopError marks an error as the next hop's, unless the cause is on this side.
func hopError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Kind: Canceled, Err: ctx.Err()}
	}
	switch KindOf(err) {
	case Self, Forbidden, Files, Canceled, Budget:
		return err
	}
	return &Error{Kind: Hop, TLS: TLSFailureOf(err), Err: err}
}

// bufferedConn returns first the bytes that arrived together with an answer that gives the
// connection away: to a CONNECT, or a 101.
// It has no NetConn, because the connection underneath lacks these bytes.
type bufferedConn struct {
	net.Conn
	buffered []byte
}

func (c *bufferedConn) Read(p []byte) (int, error) {
	if len(c.buffered) > 0 {
		n := copy(p, c.buffered)
		c.buffered = c.buffered[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite closes the sending direction, if the connection underneath can.
func (c *bufferedConn) CloseWrite() error { return closeWrite(c.Conn) }

type viaKey struct{}

// WithVia stores the proxies that a request has passed, as in its Via headers, joined by
// commas. A next hop gets them, so that a loop of proxies is detected.
func WithVia(ctx context.Context, chain string) context.Context {
	if chain == "" {
		return ctx
	}
	return context.WithValue(ctx, viaKey{}, chain)
}

// ViaFrom is the chain that WithVia stored.
func ViaFrom(ctx context.Context) string {
	chain, _ := ctx.Value(viaKey{}).(string)
	return chain
}

// JoinVia adds further proxies to a chain: lines of Via headers.
func JoinVia(chain string, lines ...string) string {
	return strings.Trim(strings.TrimRight(chain, ", ")+", "+strings.Join(lines, ", "), ", ")
}

// Login keeps a wrong user or password of a next hop from being sent with every request, by which
// the account could be locked. Until the next hop has accepted them one request at a time tries,
// and after a refusal there is a pause. It is safe for concurrent use. On a nil *Login all go.
type Login struct {
	// OnRefused is called after each refusal, with the end of the pause, zero if there is none.
	OnRefused func(until time.Time)

	mu       sync.Mutex
	accepted bool          // since the last Reset
	refused  int           // answers 407 in a row
	until    time.Time     // end of the pause
	trial    chan struct{} // closed at the end of the request that tries; nil: none does
	expires  time.Time     // another may try from then on
}

const (
	// loginPause is the pause after the first refusal. It doubles with each further one.
	loginPause    = time.Minute
	maxLoginPause = time.Hour
	// loginTrial is the time after which others go beside a request that the next hop has not
	// refused, because it waits for the site.
	loginTrial = 10 * time.Second
	// loginDoubt is the number of refusals in a row after which a login that was accepted before
	// counts as refused: a site can answer 407, too.
	loginDoubt = 3
)

var errLogin = errors.New("the next hop does not accept the user and password")

// Begin waits until a request may be sent with the login. Its error says until when none is.
func (l *Login) Begin(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for {
		trial, wait, err := l.admit(time.Now())
		if trial == nil {
			return err
		}
		select {
		case <-trial:
		case <-time.After(wait):
		case <-ctx.Done():
			return &Error{Kind: Canceled, Err: ctx.Err()}
		}
	}
}

// admit lets a request go, refuses it by an error, or returns the trial to be waited for.
func (l *Login) admit(now time.Time) (trial chan struct{}, wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case now.Before(l.until):
		return nil, 0, &Error{Kind: HopLogin, Until: l.until, Err: errLogin}
	case l.accepted && l.refused == 0:
		return nil, 0, nil
	case l.trial != nil && now.Before(l.expires):
		return l.trial, l.expires.Sub(now), nil
	}
	l.trial, l.expires = make(chan struct{}), now.Add(loginTrial)
	return nil, 0, nil
}

// End notes the status that the next hop answered, 0 for none. It returns the error of a refusal.
func (l *Login) End(status int) *Error {
	if l == nil {
		if status == http.StatusProxyAuthRequired {
			return &Error{Kind: HopLogin, Err: errLogin}
		}
		return nil
	}
	refused := l.note(status, time.Now())
	if refused != nil && l.OnRefused != nil {
		l.OnRefused(refused.Until)
	}
	return refused
}

func (l *Login) note(status int, now time.Time) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trial != nil {
		close(l.trial)
		l.trial = nil
	}
	switch status {
	case 0:
		return nil
	case http.StatusProxyAuthRequired:
		l.refused++
	default:
		l.accepted, l.refused, l.until = true, 0, time.Time{}
		return nil
	}
	if doubled := l.refused - 1; !l.accepted || l.refused >= loginDoubt {
		l.accepted = false
		l.until = now.Add(min(loginPause<<min(doubled, 10), maxLoginPause))
	}
	return &Error{Kind: HopLogin, Until: l.until, Err: errLogin}
}

// Refused returns the end of the pause after a refusal, zero if there is none.
func (l *Login) Refused() time.Time {
	if l == nil {
		return time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == 0 {
		return time.Time{}
	}
	return l.until
}

// Reset forgets refusals: the operator may have mended the account.
func (l *Login) Reset() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted, l.refused, l.until = false, 0, time.Time{}
	}
}
