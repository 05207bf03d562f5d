package proxy

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// forwarder forwards the requests that abide can see, and counts them.
type forwarder struct {
	transport
	log         *logrus.Logger
	accessLog   *accesslog.Log
	conns       *trackedConns
	pipeline    *goproxy.ProxyHttpServer // copies the responses of transport
	replayBytes atomic.Int64             // bytes of request bodies that are kept for another attempt
}

func newForwarder(t transport, log *logrus.Logger, conns *trackedConns) *forwarder {
	f := &forwarder{transport: t, log: log, accessLog: accesslog.New(log), conns: conns}
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
		refuse(f.metrics, w, r, p)
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
	defer x.end(f.dispatcher)
	if r.ContentLength == 0 {
		r.Body = http.NoBody // HTTP/2 has another object for an empty body
	}
	if r.Body != nil && r.Body != http.NoBody {
		if r.ContentLength > int64(x.Snapshot.Policy().Bounds.Upload) {
			refuse(f.metrics, w, r, &problem.LargeBody)
			return
		}
		x.beginUpload(r)
	}
	r = x.Snapshot.SignVia(x.Target.Scheme, r, via)

	defer f.count(x, r)
	defer f.recoverPanic(x, w, r)
	if upgrade {
		websockets{&f.transport, f.conns}.serve(x, r)
		return
	}
	f.pipeline.ServeHTTP(&x.writer, r)
}

// prepare changes r to what is sent to the site, or returns why it is refused.
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
	dispatch.Absolute(r.URL, x.Target)
	dispatch.KeepPath(r.URL)
	r.Host = r.URL.Host
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
	f.log.WithField("panic", fmt.Sprintf("%T", value)).Errorf("abide failed while serving %s: %s", x.Target.Host, redact.Frames(debug.Stack()))
	if x.writer.began {
		panic(http.ErrAbortHandler)
	}
	clear(w.Header())
	refuse(f.metrics, w, r, &problem.Bug)
}

// count counts a request that is complete, and writes its line of the access log.
func (f *forwarder) count(x *exchange, r *http.Request) {
	status := x.writer.status
	if status == 0 {
		status = 499 // nothing was written: the client left
	}
	report := x.Report()
	if report.Meter == nil {
		report.Meter = f.metrics.Site(x.Snapshot.Policy().Match(x.Target).Site)
	}
	var asked time.Duration
	if !report.Sent.IsZero() && !report.Answered.IsZero() {
		asked = report.Answered.Sub(report.Sent)
		// Abide's own time is before the upstream was asked, and between the upstream's
		// head and the client's. How long the body takes depends on the two ends.
		f.metrics.Overhead(report.First.Sub(x.Start) - x.Uploading - report.Before + x.writer.wroteHead.Sub(report.Answered))
	}
	report.Meter.Request(r.Method, status, asked)
	if to := x.Snapshot.Policy().Log; to.Access != accesslog.Off {
		f.accessLog.Add(x.accessLine(r, report, status), accesslog.Target{To: to.Access, Text: to.Lines == "text"})
	}
}
