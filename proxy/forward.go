package proxy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"
	"golang.org/x/net/http/httpguts"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// forwarder forwards the requests that abide can see, and counts them.
type forwarder struct {
	transport    transport
	log          *logrus.Logger
	accessLog    *accesslog.Log
	conns        *trackedConns
	pipeline     *goproxy.ProxyHttpServer // copies the responses of transport
	stallLines   sitelog.LineLimit
	refusalLines sitelog.LineLimit
	replayBytes  atomic.Int64 // bytes of request bodies that are stored for another attempt
}

func newForwarder(t transport, log *logrus.Logger, conns *trackedConns) *forwarder {
	f := &forwarder{transport: t, log: log, accessLog: accesslog.New(log), conns: conns, stallLines: sitelog.LineLimit{Every: time.Minute}, refusalLines: sitelog.LineLimit{Every: time.Hour}}
	f.pipeline = newPipeline(&f.transport, log)
	return f
}

// newPipeline configures goproxy to copy requests and responses only. goproxy gets no
// CONNECT, has no transport of its own and reads no environment.
func newPipeline(t *transport, log *logrus.Logger) *goproxy.ProxyHttpServer {
	p := goproxy.NewProxyHttpServer()
	p.Logger = serverLog{log}
	p.ConnectDial = nil
	p.Tr = nil
	p.KeepHeader = true // forward has removed the hop-by-hop headers
	p.KeepAcceptEncoding = true
	p.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = t
		return r, nil
	})
	return p
}

// forward makes a request's URL absolute and canonical, removes its hop-by-hop headers, and
// sends it through goproxy. via is the Via header of the CONNECT that the request is inside.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request, x *exchange, via string) {
	upgrade := asksForWebsocket(r)
	if p := f.prepare(r, x, upgrade); p != nil {
		x.Start, x.Address = time.Now(), x.conn.name()
		f.countRefused(&x.Request, r.Method, p)
		refuse(f.transport.metrics, w, r, p)
		return
	}
	if x.conn != nil && r.ProtoMajor == 1 {
		x.conn.discards.Store(false)
		// Before the body is read, because net/http waits for the client's next bytes as
		// soon as the body has ended.
		x.conn.halfClose.delays.Store(true)
		defer x.conn.halfClose.delays.Store(false)
		if r.ContentLength == 0 && !upgrade {
			x.conn.noBody.Store(true)
			defer x.conn.noBody.Store(false)
		}
	}
	x.memory.total = &f.replayBytes
	r = x.begin(w, r)
	defer x.end(f.transport.dispatcher)
	if r.ContentLength == 0 {
		r.Body = http.NoBody // HTTP/2 has another object for an empty body
	}
	if r.Body != nil && r.Body != http.NoBody {
		if r.ContentLength > int64(x.Snapshot.Policy().Bounds.Upload) {
			refuse(f.transport.metrics, w, r, &problem.LargeBody)
			return
		}
		x.beginUpload(r)
	}
	r = x.Snapshot.SignVia(x.Target.Scheme, r, via)

	defer f.count(x, r)
	defer f.recoverPanic(x, w, r)
	if upgrade {
		f.serveWebsocket(x, r)
		return
	}
	f.pipeline.ServeHTTP(&x.writer, r)
}

// prepare changes r to the request that is sent to the site, or returns the problem for which
// it is refused.
func (f *forwarder) prepare(r *http.Request, x *exchange, upgrade bool) *problem.Problem {
	if p := checkRequest(r); p != nil {
		return p
	}
	if x.Snapshot.Passed(r.Header["Via"]) {
		return &problem.Loop
	}
	if p := dispatch.MethodRefusal(r.Method); p != nil {
		return p
	}
	var ok bool
	if x.Options, ok = dispatch.ReadOptions(r.Header, x.conn.requestOptions()); !ok {
		return &problem.Wish
	}
	stripHop(r.Header)
	x.continues = len(r.Header["Expect"]) > 0
	delete(r.Header, "Expect") // net/http answers it at the first read of the body
	if upgrade {
		r.Header["Connection"] = []string{"Upgrade"}
		r.Header["Upgrade"] = []string{"websocket"}
	}
	dispatch.Canonical(r, x.Target)
	r.Close = false // that was about the client's connection
	return nil
}

// recoverPanic confines a panic to the request that caused it.
func (f *forwarder) recoverPanic(x *exchange, w http.ResponseWriter, r *http.Request) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler {
		panic(value)
	}
	// The value of a panic may quote a header; its type and stack may not.
	f.log.WithFields(logrus.Fields{"panic": fmt.Sprintf("%T", value), "site": x.Snapshot.Policy().Match(x.Target).Site}).Errorf("abide failed while serving %s: %s", x.Target.Host, redact.Frames(debug.Stack()))
	if x.writer.began {
		panic(http.ErrAbortHandler)
	}
	clear(w.Header())
	refuse(f.transport.metrics, w, r, &problem.Bug)
}

// count counts a request that is complete, and writes its line of the access log.
func (f *forwarder) count(x *exchange, r *http.Request) {
	status := cmp.Or(x.writer.status, 499) // 499: nothing was written, the client left
	report := x.Report()
	if report.Meter == nil {
		report.Meter = f.transport.metrics.Site(x.Snapshot.Policy().Match(x.Target).Site)
	}
	var asked time.Duration
	if !report.Sent.IsZero() && !report.Answered.IsZero() {
		asked = report.Answered.Sub(report.Sent)
		// Abide's own time is before the upstream was asked, and between the upstream's
		// head and the client's. How long the body takes depends on the two ends.
		f.transport.metrics.Overhead(report.First.Sub(x.Start) - x.Uploading - report.Before + x.writer.wroteHead.Sub(report.Answered))
	}
	counted := status
	switch x.writer.broke {
	case upstream.Canceled:
		if stop := problem.StopOf(r.Context()); stop != nil {
			f.countCut(x, stop.Reason)
			break
		}
		if !strings.HasPrefix(x.writer.Header().Get("Content-Type"), "text/event-stream") {
			counted = 499 // the answer was not read to its end, which a stream of events does not have
		}
	case upstream.Budget, upstream.Stalled:
		f.countCut(x, problem.Of(x.writer.broke).Reason)
	}
	if x.Status = counted; counted == 499 {
		left := time.Now()
		if x.conn != nil {
			left = x.conn.halfClose.left(left)
		}
		x.Left(left)
	}
	f.logRefusal(&x.Request)
	report.Meter.Request(r.Method, counted, asked)
	if why := x.Denied(); why != "" {
		report.Meter.Denied(counted, why)
	}
	f.addLine(&x.Request, accesslog.Line{
		Method: r.Method, Path: r.URL.EscapedPath(), Secret: x.Token(), Own: r.Header.Get("Authorization"), Status: status,
		Received: x.download.total, Sent: x.upload.size(),
	})
}

// countCut counts an answer that abide has cut, and logs that its site was silent for too long.
func (f *forwarder) countCut(x *exchange, reason string) {
	x.Refusal = reason
	f.transport.metrics.Refused(reason)
	if x.writer.broke == upstream.Stalled && f.stallLines.Due(x.Site(), time.Now()) {
		rule := "none"
		if r := x.Snapshot.Policy().Match(x.Target).Rule; r != nil {
			rule = r.Title()
		}
		f.log.WithFields(logrus.Fields{"site": x.Site(), "rule": rule, "waited": x.Stall(x.Snapshot.Policy().Timeouts.Stall).String()}).
			Warn("the site was silent in the middle of an answer for longer than stall (timeouts.stall), so the answer was cut; set stall: off in its rule if its streams are silent for that long")
	}
}

// countRefused logs a CONNECT, or a request that is refused before it is read, in the access log too.
func (f *forwarder) countRefused(x *dispatch.Request, method string, p *problem.Problem) {
	x.Refusal = p.Reason
	f.logRefusal(x)
	f.addLine(x, accesslog.Line{Method: method, Status: p.Status})
}

// addLine adds a line to the access log about a request that is complete. line has what the report of
// the request does not say.
func (f *forwarder) addLine(x *dispatch.Request, line accesslog.Line) {
	to := x.Snapshot.Policy().Log
	if to.Access == accesslog.Off {
		return
	}
	now, of := time.Now(), x.Report()
	line.End, line.Took, line.Wait = now, now.Sub(x.Start), of.Waited
	line.Client, line.Priority, line.Origin = of.Client, of.Priority, x.Target.Scheme+"://"+x.Target.HostPort()
	line.Site, line.Limit, line.Token, line.Reason = x.Snapshot.Policy().Match(x.Target).Site, of.Limit, of.Token, x.Refusal
	line.Attempts, line.Refusals = of.Attempts, of.Refusals
	f.accessLog.Add(line, accesslog.Target{To: to.Access, Text: to.Lines == "text"})
}

// logRefusal logs that rules of the operator refuse a request, once an hour for a client and a host.
func (f *forwarder) logRefusal(x *dispatch.Request) {
	ruled := x.Refusal == problem.Forbidden.Reason || x.Refusal == problem.Of(upstream.Forbidden).Reason
	if ruled && f.refusalLines.Due(x.ClientName()+" "+x.Target.HostPort(), time.Now()) {
		f.log.WithFields(logrus.Fields{"client": x.ClientName(), "host": x.Target.HostPort(), "reason": x.Refusal}).
			Info("a request is refused by the rules of access or egress; abide explain says which")
	}
}

// serveWebsocket sends an upgrade to WebSocket like any request and, when the upstream agrees,
// relays bytes both ways. goproxy's own relay would leave the client's connection open after
// the upstream has closed its own.
func (f *forwarder) serveWebsocket(x *exchange, r *http.Request) {
	w := &x.writer
	resp, _ := f.transport.RoundTrip(r, nil)
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header) // of a response of abide itself
	origin, upgraded := resp.Body.(*download)
	if resp.StatusCode != http.StatusSwitchingProtocols || !upgraded {
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
		return
	}
	stream, ok := origin.body.(net.Conn)
	if !ok {
		w.head = nil
		refuse(f.transport.metrics, w, r, &problem.Upgrade)
		return
	}
	w.Header()["Connection"] = []string{"Upgrade"}
	w.Header()["Upgrade"] = []string{"websocket"}
	w.WriteHeader(resp.StatusCode)
	raw, buffered, err := w.ctl.Hijack()
	if err != nil {
		return
	}
	defer raw.Close()
	if x.conn != nil {
		x.conn.halfClose.delays.Store(false) // EOF now ends the WebSocket
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	t := x.Snapshot.Policy().Timeouts
	f.conns.relay(raw, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, raw, stream, upstream.RelayOptions{
			Idle: x.Stall(t.TunnelIdle), Life: t.TunnelLife, FromClient: early, CloseBoth: true, OnProgress: active,
		})
	})
}

// asksForWebsocket recognises an upgrade to WebSocket, the only upgrade that is forwarded.
func asksForWebsocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		len(r.Header["Upgrade"]) == 1 && strings.EqualFold(r.Header["Upgrade"][0], "websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
}

// innerHandler answers the requests inside CONNECTs.
type innerHandler struct {
	forwarder *forwarder
	refusals  *certificateRefusals
}

// ServeHTTP forwards a request to the target of the connection's CONNECT. A request with
// another Host is refused, because limits and tokens are chosen by the target.
func (h *innerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := h.serve(w, r, connOf(r)); p != nil {
		refuse(h.forwarder.transport.metrics, w, r, p)
	}
}

func (h *innerHandler) serve(w http.ResponseWriter, r *http.Request, conn *clientConn) *problem.Problem {
	if conn == nil || conn.grant == nil {
		return &problem.Bug
	}
	conn.errors.inHandler.Store(true)
	if r.Method == http.MethodConnect {
		// The next bytes may be for the tunnel that is refused, and must not be read as a
		// request.
		closeAfter(w, r)
		return &problem.Method
	}
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		return &problem.Version
	}
	if r.URL.User != nil {
		return &problem.Userinfo
	}
	snapshot := h.forwarder.transport.dispatcher.Current()
	client, refusal := readmit(snapshot.Policy(), conn)
	if refusal != nil {
		return refusal
	}
	target := conn.grant.target
	if r.Host != "" || r.ProtoAtLeast(1, 1) {
		asked, err := policy.ParseTarget(target.Scheme, r.Host)
		if err != nil {
			return &problem.BadTarget
		}
		if asked != target || (r.URL.Scheme != "" && r.URL.Scheme != target.Scheme) {
			return &problem.Misdirected
		}
	}
	x := &exchange{Request: dispatch.Request{Snapshot: snapshot, Target: target, Client: client}, conn: conn}
	h.forwarder.forward(w, r, x, conn.grant.via)
	return nil
}

// connState is called by http.Server when the state of a connection changes. The first byte
// of a request shows that the client has accepted the certificate of an intercepted
// connection; a connection that ends without a request may show that it has not.
func (h *innerHandler) connState(c net.Conn, state http.ConnState) {
	onIdle(c, state)
	conn := bareConn(c)
	if conn == nil || conn.grant == nil || conn.grant.target.Scheme != "https" {
		return
	}
	switch grant := conn.grant; state {
	case http.StateActive:
		if !grant.settled.Swap(true) {
			h.refusals.accepted(grant.key)
		}
	case http.StateClosed:
		if !grant.settled.Load() && !h.forwarder.conns.draining() {
			h.refusals.rejected(h.forwarder.transport.dispatcher.Policy(), conn.addr, grant.key, grant.target, grant.began, false)
		}
	}
}

// serverLog receives the log lines of net/http and goproxy. Both may put URLs, with their
// passwords and queries, into a line, so only the kind of event is logged, at level debug.
type serverLog struct{ log *logrus.Logger }

func (l serverLog) Write(p []byte) (int, error) {
	l.debug("http server: ", eventOf(string(p)))
	return len(p), nil
}

func (l serverLog) Printf(format string, _ ...any) { l.debug("goproxy: ", eventOf(format)) }

func (l serverLog) debug(from, event string) { l.log.WithField("reason", event).Debug(from, event) }

// eventOf is the constant begin of a line of net/http or goproxy: the words before the
// first text that a client or site may have chosen.
func eventOf(line string) string {
	line = strings.TrimPrefix(line, "http:")
	for _, mark := range []string{"%", "\"", "://"} {
		line, _, _ = strings.Cut(line, mark)
	}
	words := strings.Fields(line)
	return strings.Join(words[:min(len(words), 6)], " ")
}
