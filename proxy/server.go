// Package proxy is the clients' side of abide: it accepts connections, answers CONNECTs, and
// gives every request that it can see to the dispatcher.
//
//	s, err := proxy.New(dispatch.Options{Policy: p, Metrics: m, Log: log}, authority)
//	l, err := net.Listen("tcp", p.Listen)
//	err = s.Serve(ctx, l) // until ctx is done and all requests have ended
//
// The path of a request:
//
//	listener ── outer http.Server ─┬─ absolute URL ─────────────────────────► forward ─► goproxy ─► transport ─► dispatch
//	(bounds)    (access, 407)      └─ CONNECT ─┬─ tunnel: relay                  ▲
//	                                           └─ intercept: TLS ─► inner http.Server (HTTP/1, HTTP/2)
package proxy

import (
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/permits"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// maxHead bounds a client's request head in bytes. net/http adds 4 KiB, so that a head of
// 64 KiB is accepted and one byte more gets a 431.
const maxHead = 64<<10 - 4096

// Server is one proxy. Make it with New; it is safe for concurrent use.
type Server struct {
	*dispatch.Dispatcher
	*dispatch.View
	*dispatch.Operator
	*permits.Permits

	metrics       *metrics.Metrics
	limiter       *connLimiter
	conns         trackedConns
	access        *access
	interception  *interception
	connects      *connectHandler
	forwarder     *forwarder
	outer         *http.Server
	inner         *http.Server
	innerListener *innerListener
	cut           context.CancelCauseFunc // ends the contexts of all requests
	command       bool                    // see ServeCommand
}

// ServeCommand says, before Serve, that the clients are those of a command, which has ended when the
// server stops: what has no answer then was given up.
func (s *Server) ServeCommand() { s.command = true }

// New prepares a server with the options of its dispatcher and its CA; it starts nothing.
func New(o dispatch.Options, authority *ca.CA) (*Server, error) {
	s := &Server{
		metrics: o.Metrics, limiter: &connLimiter{counts: map[netip.Addr]int64{}}, access: newAccess(o.Metrics, o.Log),
		interception:  newInterception(authority, o.Metrics, o.Log),
		innerListener: &innerListener{conns: make(chan net.Conn), done: make(chan struct{})},
	}
	var err error
	o.OtherDocuments = []string{kindOfRefusedHost}
	if s.Dispatcher, err = dispatch.New(o); err != nil {
		return nil, err
	}
	s.View = dispatch.NewView(s.Dispatcher, s.interception)
	s.Operator = dispatch.NewOperator(s.Dispatcher)
	s.Permits = permits.New(s.Dispatcher, o.Metrics)
	s.limiter.setBounds(o.Policy.Bounds)
	s.interception.refusals.keep(s.Persistence())
	s.forwarder = newForwarder(transport{s.Dispatcher, o.Metrics}, o.Log, &s.conns)
	o.Metrics.AccessLog(s.forwarder.accessLog.Dropped.Load)
	o.Metrics.RefusalReasons(slices.Sorted(maps.Keys(problem.Titles())))
	s.connects = &connectHandler{
		dispatcher: s.Dispatcher, ca: authority, metrics: o.Metrics, log: o.Log,
		interception: s.interception, conns: &s.conns, inner: s.innerListener, forwarder: s.forwarder,
		portLines: sitelog.LineLimit{Every: portSilence},
	}
	base, cut := context.WithCancelCause(context.Background())
	s.cut = cut
	t := o.Policy.Timeouts
	s.outer = newHTTPServer(base, &outerHandler{s.forwarder, s.access, s.connects}, onIdle, t, o.Log)
	inner := &innerHandler{s.forwarder, s.interception.refusals}
	s.inner = newHTTPServer(base, inner, inner.connState, t, o.Log)
	s.inner.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: 250,
		// A frame must not be larger than the window that it has to fit.
		MaxReadFrameSize: 16 << 10,
		WriteByteTimeout: t.Stall,
		SendPingTimeout:  t.Idle,
		PingTimeout:      t.Handshake,
		// The defaults of 1 MiB for a stream make a slow upload cost a megabyte.
		MaxReceiveBufferPerConnection: 1 << 20,
		MaxReceiveBufferPerStream:     256 << 10,
	}
	return s, nil
}

func newHTTPServer(base context.Context, h http.Handler, state func(net.Conn, http.ConnState), t policy.Timeouts, to *logrus.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: t.Header,
		IdleTimeout:       t.Idle,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          log.New(serverLog{to}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, bareConn(c))
		},
		ConnState: state,
		// outerHandler answers "OPTIONS *".
		DisableGeneralOptionsHandler: true,
	}
}

// Serve answers clients on l, and on open listeners, where all https is opened, until
// ctx is done. Then it accepts no more connections, lets requests and tunnels end within
// timeouts.drain, and closes the rest.
func (s *Server) Serve(ctx context.Context, l net.Listener, open ...net.Listener) error {
	failed := make(chan error, 2+len(open))
	var running sync.WaitGroup
	for i, listener := range append([]net.Listener{l}, open...) {
		if a, ok := listener.Addr().(*net.TCPAddr); ok {
			s.Own(a.AddrPort())
		}
		clients := &clientListener{
			Listener: listener, limiter: s.limiter, metrics: s.metrics, conns: &s.conns, policy: s.Policy, trustsCA: i > 0,
		}
		running.Go(func() { failed <- s.outer.Serve(clients) })
	}
	running.Go(func() { failed <- s.inner.Serve(s.innerListener) })

	background, stop := context.WithCancel(context.Background())
	running.Go(func() { s.forwarder.accessLog.Run(background) })
	running.Go(func() { s.Dispatcher.Run(background) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain()
	stop()
	running.Wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// drain lets requests and tunnels end within timeouts.drain, and then closes both servers. The
// last half second, or quarter, is for answers to requests that have none yet.
func (s *Server) drain() {
	s.CancelBackground()
	s.SettleAll()
	s.access.wrongSecrets.End()
	limit := s.Policy().Timeouts.Drain
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.conns.drain(ctx, idleBeforeClose(limit))
	soon, cancelSoon := context.WithTimeout(ctx, limit-min(limit/4, 500*time.Millisecond))
	defer cancelSoon()
	context.AfterFunc(soon, func() {
		if s.command {
			s.cut(nil)
		}
		s.cut(&problem.Draining)
	})
	var ends sync.WaitGroup
	ends.Go(func() { s.DrainQueue(soon) })
	// The inner listener stays open until the outer server has ended: a CONNECT may still be
	// on its way to the inner server.
	ends.Go(func() {
		shut(ctx, s.outer)
		s.innerListener.Close()
		shut(ctx, s.inner)
	})
	ends.Go(func() { s.conns.wait(ctx) })
	ends.Wait()
	s.conns.wait(ctx) // connections that the servers opened or left while they ended
}

func shut(ctx context.Context, srv *http.Server) {
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
}

// Reload replaces the policy. Connections and requests in flight go on.
func (s *Server) Reload(p *policy.Policy) error {
	if err := s.Dispatcher.Reload(p); err != nil {
		return err
	}
	s.limiter.setBounds(p.Bounds)
	return nil
}

// ReopenAccessLog makes the next line of the access log open its file again.
func (s *Server) ReopenAccessLog() { s.forwarder.accessLog.Reopen.Send() }

// Connects counts the CONNECTs of clients, and those of them to ports that egress.ports does
// not name.
func (s *Server) Connects() (all, refusedPorts uint64) {
	return s.connects.all.Load(), s.connects.refusedPorts.Load()
}

// Rejections counts the TLS handshakes in which clients refused a certificate of the CA, and accepted none later.
func (s *Server) Rejections() int64 { return s.interception.refusals.count() }

// ForgetRejections forgets which clients refused a certificate of the CA: abide opens their
// https again.
func (s *Server) ForgetRejections() { s.interception.refusals.forget() }
