//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// event is something that an origin saw: a request, or bytes.
type event struct {
	at time.Time
	n  int64
}

// origin is a site. It notes each request when its bytes have arrived in the kernel,
// and the bytes that pass in both directions.
type origin struct {
	host   string
	at     string
	server *http.Server
	ended  chan struct{}

	mu       sync.Mutex
	requests []event
	bytes    []event
}

// originAt starts a site whose answers have size bytes.
func (b *bed) originAt(host string, size int) (*origin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &origin{host: host, at: l.Addr().String(), ended: make(chan struct{})}
	body := bytes.Repeat([]byte("abide\n\x00\xff"), size/8+1)[:size]
	type key struct{}
	o.server = &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(key{}).(*conn)
			o.note(&o.requests, event{c.came(), 1})
			_, _ = w.Write(body) // whoever hangs up is not counted twice
		}),
	}
	go func() {
		defer close(o.ended)
		_ = o.server.Serve(&listener{l, o})
	}()
	b.origins = append(b.origins, o)
	return o, nil
}

func (o *origin) note(list *[]event, e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, e)
}

// seen is what was seen so far.
func (o *origin) seen(bytes bool) []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if bytes {
		return append([]event(nil), o.bytes...)
	}
	return append([]event(nil), o.requests...)
}

func (o *origin) close() {
	_ = o.server.Close()
	<-o.ended
}

type listener struct {
	net.Listener
	o *origin
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.New("not TCP")
	}
	_ = tc.SetWriteBuffer(4096) // what is in it was not taken by anybody yet
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, o: l.o, raw: raw}, nil
}

type conn struct {
	net.Conn
	o   *origin
	raw syscall.RawConn

	mu   sync.Mutex
	last time.Time
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		at := c.arrived()
		c.mu.Lock()
		c.last = at
		c.mu.Unlock()
		c.o.note(&c.o.bytes, event{at, int64(n)})
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.o.note(&c.o.bytes, event{time.Now(), int64(n)})
	}
	return n, err
}

// came is when the bytes of the request came that is being answered.
func (c *conn) came() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// coarse is how exactly the kernel's time of arrival is known.
const coarse = 10 * time.Millisecond

// arrived is when the kernel got what was read now: on a busy machine this program
// may be late. It is never too early, and too late by coarse at most.
func (c *conn) arrived() time.Time {
	at := time.Now()
	_ = c.raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			at = at.Add(-max(time.Duration(info.Last_data_recv)*time.Millisecond-coarse, 0))
		}
	})
	return at
}
