// Package proxy is the HTTP side of abide: it accepts clients, opens their
// CONNECTs, and sends every request it can see down one path, Transport.
//
//	s, err := proxy.New(proxy.Options{Policy: p, CA: authority, Metrics: m, Log: log})
//	l, err := net.Listen("tcp", p.Listen)
//	err = s.Serve(ctx, l) // until ctx is done and what was in flight has ended
//
// How a request flows:
//
//	listener ── outer http.Server ─┬─ absolute-form ───────────────────► forward ─► goproxy ─► Transport ─► upstream
//	(caps)      (access, 407)      └─ CONNECT ─┬─ tunnel: relay              ▲
//	                                           └─ intercept: TLS ─► inner http.Server (h1, h2), Host pinned
package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/throttle"
)

// maxHead bounds a client's request head. net/http adds 4 KiB of slop to what
// it is told, so that a head of 64 KiB passes and one byte more is a 431.
const maxHead = 64<<10 - 4096

// Options are what a Server is made of. All fields but Lookup are needed.
type Options struct {
	Policy  *policy.Policy
	CA      *ca.CA
	Metrics *metrics.Metrics
	Log     *logrus.Logger
	Lookup  func(name string) (string, bool) // the environment, for pools; nil is an empty one
	Keeping Keeping                          // the zero one keeps and shares nothing
}

// Server is one proxy. Make it with New; it is safe for concurrent use.
type Server struct {
	ca      *ca.CA
	metrics *metrics.Metrics
	log     *logrus.Logger

	name     string // our pseudonym in Via, made anew by each process
	state    atomic.Pointer[state]
	own      ownAddresses
	pipeline *goproxy.ProxyHttpServer
	limiter  *connLimiter

	outer, inner *http.Server
	handoff      *handoff // connections from CONNECT on their way to inner
	tunnels      tunnels
	gate         *queue.Gate
	breakers     breakers
	loads        loads // of backends
	lookup       func(name string) (string, bool)
	books        *books  // what is known of the routes of sites
	flights      flights // requests that may be shared
	robots       robots
	desk         *desk       // nil: nothing is kept, and nothing shared
	shelf        store.Shelf // of documents; nil: there is none
	memory       *memories   // of what was learned; nil: there is none
	rereads      ring        // limits that were set at run time may have changed
	replans      ring        // tokens may have
	stirs        ring        // something is asked for
	stirred      atomic.Bool // since the housekeeper looked
	overrides    atomic.Pointer[map[string][]policy.Limit]
	purses       purses
	sizes        sizes
	permits      permits
	usages       usages       // of limits with long windows
	kept         atomic.Int64 // bytes of bodies that are kept for another attempt
	rejections   rejections
	lines        *lines
	access       *accessLog
	wrong        *throttle.Guard // secrets of clients
	activity     *activity

	reloading sync.Mutex
	retired   sync.WaitGroup // states that were replaced and still close down
}

// New prepares a server; it starts nothing.
func New(o Options) (*Server, error) {
	s := &Server{
		ca: o.CA, metrics: o.Metrics, log: o.Log,
		name:    newPseudonym(),
		limiter: newConnLimiter(),
		access:  newAccessLog(o.Log), activity: newActivity(o.Log),
		lookup: o.Lookup,
	}
	s.rereads, s.replans, s.stirs = make(ring, 1), make(ring, 1), make(ring, 1)
	s.books = newBooks()
	s.lines = newLines()
	s.wrong = throttle.New(s.refusedSecrets)
	s.rejections.hosts = newRefusedHosts()
	s.breakers.loud = rate.NewLimiter(1, 20)
	if o.Keeping.Memory != nil {
		s.books.recall = s.recallRoutes
	}
	if o.Keeping.Memory != nil || o.Keeping.Shared {
		s.books.keep = s.recallLedger
	}
	if err := s.keepWith(o.Keeping, o.Policy.StrictState); err != nil {
		return nil, err
	}
	st, err := s.newState(o.Policy, nil)
	if err != nil {
		return nil, err
	}
	s.state.Store(st)
	s.ownStore(o.Policy.Store)
	s.limiter.set(o.Policy.Bounds)
	s.gate = queue.NewGate(boundsOf(o.Policy), s.replan)
	s.gate.OnCool(s.cooled)
	if s.memory != nil {
		s.restoreCooldowns()
		s.restoreRejections()
	}
	if s.desk != nil {
		s.desk.gate = s.gate
	}
	if s.shelf != nil {
		soon, cancel := context.WithTimeout(context.Background(), patienceOfStore)
		defer cancel()
		if err := s.readOverrides(soon); err != nil {
			s.log.Warnf("the limits that were set at run time cannot be read yet: %v", err)
		}
	}
	s.bringAll(o.Keeping.Budgets)
	s.pipeline = newPipeline(s)
	s.handoff = newHandoff()
	t := o.Policy.Timeouts
	quiet := log.New(serverLog{o.Log}, "", 0)
	server := func(h http.HandlerFunc) *http.Server {
		return &http.Server{
			Handler:           h,
			ReadHeaderTimeout: t.Header,
			IdleTimeout:       t.Idle,
			MaxHeaderBytes:    maxHead,
			ErrorLog:          quiet,
			ConnContext:       connContext,
			// "OPTIONS *" is ours to answer, in serveOuter.
			DisableGeneralOptionsHandler: true,
		}
	}
	s.outer = server(s.serveOuter)
	s.outer.ConnState = served
	s.inner = server(s.serveInner)
	s.inner.ConnState = s.openedConnState
	s.inner.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: 250,
		// No frame may be larger than the window that it has to fit.
		MaxReadFrameSize: 16 << 10,
		WriteByteTimeout: t.Stall,
		SendPingTimeout:  t.Idle,
		PingTimeout:      t.Handshake,
		// The defaults of 1 MiB a stream make a slow upload cost a megabyte.
		MaxReceiveBufferPerConnection: 1 << 20,
		MaxReceiveBufferPerStream:     256 << 10,
	}
	return s, nil
}

// Own names a listener of this process that must never be dialed.
func (s *Server) Own(a netip.AddrPort) { s.own.add(a) }

// Serve answers clients on l, and on open listeners, where all https is opened, until
// ctx is done. Then it takes no new ones, lets what is in flight finish within
// timeouts.drain, and cuts the rest.
func (s *Server) Serve(ctx context.Context, l net.Listener, open ...net.Listener) error {
	failed := make(chan error, 2+len(open))
	var running sync.WaitGroup
	for i, one := range append([]net.Listener{l}, open...) {
		if a, ok := one.Addr().(*net.TCPAddr); ok {
			s.own.add(a.AddrPort())
		}
		running.Go(func() { failed <- s.outer.Serve(s.limiter.listen(one, s, i > 0)) })
	}
	running.Go(func() { failed <- s.inner.Serve(s.handoff) })

	logging, stopLogging := context.WithCancel(context.Background())
	running.Go(func() { s.access.run(logging) })
	running.Go(func() { s.activity.run(logging, s.gate) })

	keeping, stopKeeping := context.WithCancel(context.Background())
	running.Go(func() { s.runKeeping(keeping) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain()
	s.flights.end()
	s.robots.end()
	stopLogging()
	stopKeeping()
	running.Wait()
	s.retired.Wait()
	s.state.Load().close()
	s.state.Load().pools.close(nil)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// drain ends both servers and the tunnels, gently first.
func (s *Server) drain() {
	s.robots.cancel()
	s.permits.end(s)
	s.wrong.End()
	limit := s.policy().Timeouts.Drain
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.tunnels.draining(ctx, quietFor(limit))
	var ends sync.WaitGroup
	ends.Go(func() { s.drainQueue(ctx, limit) })
	// The handoff stays open until the outer server is done: a CONNECT that
	// was accepted may still be on its way to the inner one.
	ends.Go(func() {
		shut(ctx, s.outer)
		s.handoff.Close()
		shut(ctx, s.inner)
	})
	ends.Go(func() { s.tunnels.wait(ctx) })
	ends.Wait()
	s.tunnels.wait(ctx) // those that the servers opened or left while they ended
}

// drainQueue lets what is held have its turn, and answers it before it is cut. What
// cannot have its turn in time is answered at once.
func (s *Server) drainQueue(ctx context.Context, limit time.Duration) {
	limit -= min(limit/4, 500*time.Millisecond)
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if refused, waiting := s.gate.StartDrain(time.Now().Add(limit)); refused+waiting > 0 {
		s.log.Infof("stopping: answered 503 to waiting requests whose turn is after timeouts.drain: %d; still waiting: %d", refused, waiting)
	}
	s.gate.Drain(soon)
}

func shut(ctx context.Context, srv *http.Server) {
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
}

// Reload swaps the policy. Connections and requests in flight go on.
func (s *Server) Reload(p *policy.Policy) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.state.Load()
	st, err := s.newState(p, old)
	if err != nil {
		return err
	}
	s.publish(st)
	s.ownStore(p.Store)
	s.limiter.set(p.Bounds)
	s.breakers.reload(p.Breaker)
	if st.stack != old.stack {
		s.retired.Go(old.close)
	}
	s.retired.Go(func() { old.pools.close(st.pools) })
	return nil
}

func (s *Server) policy() *policy.Policy { return s.state.Load().policy }

// newPipeline arranges goproxy: it filters and copies, nothing else. It never
// sees a CONNECT, has no transport of its own and reads no environment.
func newPipeline(s *Server) *goproxy.ProxyHttpServer {
	p := goproxy.NewProxyHttpServer()
	p.Logger = serverLog{s.log}
	p.ConnectDial = nil
	p.Tr = nil
	p.KeepHeader = true // hop-by-hop headers are removed in forward, once
	p.KeepAcceptEncoding = true
	p.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = s
		return r, nil
	})
	return p
}

// serverLog takes what net/http and goproxy want to say. Both may put URLs,
// with their passwords and queries, in a line, so the words stay behind unless
// somebody debugs, and even then only the kind of event is told.
type serverLog struct{ log *logrus.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.log.Debug("http server: ", eventOf(string(p)))
	return len(p), nil
}

func (l serverLog) Printf(format string, _ ...any) { l.log.Debug("goproxy: ", eventOf(format)) }

var _ io.Writer = serverLog{}

// clock is the zero of the coarse times that connections keep.
var clock = time.Now()

func sinceStart() time.Duration { return time.Since(clock) }
