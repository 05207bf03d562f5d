package proxy

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// refusedBodyWait is the time for which a refusal waits for the body of the refused request.
const refusedBodyWait = time.Second

// refuse answers a request with an error response of abide.
func refuse(m *metrics.Metrics, w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	m.Refused(p.Reason)
	if conn := connOf(r); conn != nil && r.ProtoMajor == 1 && r.ContentLength != 0 {
		// net/http reads the rest of the body before it writes the response. A body that has
		// already come costs nothing, and the connection stays usable. A body that does not
		// come must not delay the response.
		conn.discards.Store(true)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyWait))
	}
	p.Write(w, r)
}

// maxTrailers bounds the trailer fields that a request announces: each takes a hundred
// times the memory of its letters for as long as the body is read.
const maxTrailers = 64

// checkRequest returns the problem for which a request cannot be forwarded, nil if it can.
func checkRequest(r *http.Request) *problem.Problem {
	switch {
	case r.URL.User != nil:
		return &problem.Userinfo
	case r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.ContentLength == 0 && r.Header["Content-Length"] == nil && slices.Contains([]string{"POST", "PUT", "PATCH"}, r.Method):
		// net/http ignores Transfer-Encoding on HTTP/1.0, as it must; the bytes after the
		// head would then be read as the next request.
		return &problem.LengthRequired
	case !expectsOnly100(r.Header["Expect"]):
		return &problem.Expectation
	case len(r.Trailer) > maxTrailers:
		return &problem.Trailers
	}
	return nil
}

// expectsOnly100 reports whether the Expect header is empty, or has only 100-continue, which
// net/http handles.
func expectsOnly100(lines []string) bool {
	for value := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if value = strings.TrimSpace(value); value != "" && !strings.EqualFold(value, "100-continue") {
			return false
		}
	}
	return true
}

// closeAfter ends the client's connection with the response.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header()["Connection"] = []string{"close"}
	}
}

// hopByHop are the headers that are for one connection only, in canonical spelling.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
}

// stripHop removes the hop-by-hop headers in place: the fixed set, and those that
// Connection names. Content-Length and Host stay even when Connection names them, or a
// client could hide where its own request ends.
func stripHop(h http.Header) {
	for name := range strings.SplitSeq(strings.Join(h["Connection"], ","), ",") {
		switch name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name {
		case "", "Close", "Keep-Alive", "Content-Length", "Host", "Content-Type", "Authorization", "Cookie":
		default:
			delete(h, name)
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// responseWriter writes the response of a request. It has no ReadFrom, so that a head and a
// small body leave in one write, and prevents net/http from adding headers that the upstream
// did not send.
type responseWriter struct {
	http.ResponseWriter
	request *dispatch.Request
	upload  *upload
	ctl     *http.ResponseController
	proto   int  // 10, 11 or 20
	unclear bool // the end of the request is not certain

	status    int           // 0: no head was written
	broke     upstream.Kind // why the body ended before its end; Unknown: it did not, or for another reason
	began     bool
	wroteHead time.Time
	head      http.Header // of the upstream; goproxy would copy it value by value

	stall *time.Timer // under HTTP/2: ends a stream whose client reads nothing; nil until the first write

	mu       sync.Mutex // held while the response is used outside the handler
	final    bool       // the head was written, so no 1xx may follow
	finished bool       // the handler has returned
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(code int) {
	w.mu.Lock()
	w.final = true
	w.mu.Unlock()
	h := w.Header()
	for k, v := range w.head {
		if !strings.HasPrefix(k, dispatch.HeaderPrefix) { // only abide itself sets those
			h[k] = v
		}
	}
	if _, named := h["Content-Type"]; !named {
		h["Content-Type"] = nil // net/http must not guess a type
	}
	if code == http.StatusNoContent || w.proto >= 20 && code == http.StatusNotModified {
		// A 204 may not have a length. A 304 may have the length of the 200, but over
		// HTTP/2 some clients then wait for a body.
		delete(h, "Content-Length")
	}
	if w.request.Snapshot.Policy().Abide.Headers && w.request.Site() != "" {
		w.addHeaders(h)
	}
	if w.proto < 20 && (w.unclear || !w.upload.whole()) { // the client sends more, or nobody knows whether it does
		h["Connection"] = []string{"close"}
	}
	w.began, w.status = true, code
	w.wroteHead = time.Now()
	w.ResponseWriter.WriteHeader(code)
}

var (
	noWait     = []string{"0"}
	oneAttempt = []string{"1"}
)

// addHeaders adds the Abide-* headers: what was done for the request.
func (w *responseWriter) addHeaders(h http.Header) {
	report := w.request.Report()
	h["Abide-Site"] = []string{report.Site}
	h["Abide-Wait"], h["Abide-Attempts"] = noWait, oneAttempt
	if report.Waited >= time.Millisecond {
		h["Abide-Wait"] = []string{strconv.FormatFloat(report.Waited.Seconds(), 'f', 3, 64)}
	}
	if report.Would != nil {
		h["Abide-Would-Limit"] = []string{report.Would.Limit}
		if !report.Would.Until.IsZero() {
			h["Abide-Would-Wait"] = []string{strconv.FormatFloat(max(report.Would.Until.Sub(report.First).Seconds(), 0), 'f', 3, 64)}
		}
	}
	if report.Shared {
		h["Abide-Coalesced"] = oneAttempt
	}
	if report.Token != "" {
		h["Abide-Token"] = []string{report.Token}
	}
	switch {
	case report.First.IsZero():
		h["Abide-Attempts"] = noWait
	case report.Attempts > 1:
		h["Abide-Attempts"] = []string{strconv.Itoa(report.Attempts)}
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	w.startStall()
	n, err := w.ResponseWriter.Write(p)
	w.stopStall()
	return n, err
}

// Flush is the method that http.ResponseController looks for first.
func (w *responseWriter) Flush() {
	w.startStall()
	w.ctl.Flush()
	w.stopStall()
}

// startStall gives the client timeouts.stall to receive what is being written. Under HTTP/1
// clientConn does that. A stream of HTTP/2 can stand still while its connection moves.
func (w *responseWriter) startStall() {
	if w.proto < 20 {
		return
	}
	stall := w.request.Snapshot.Policy().Timeouts.Stall
	if w.stall == nil {
		w.stall = time.AfterFunc(stall, w.endStream)
	} else {
		w.stall.Reset(stall)
	}
}

func (w *responseWriter) stopStall() {
	if w.stall != nil {
		w.stall.Stop()
	}
}

// endStream ends the stream, unless the handler has returned meanwhile.
func (w *responseWriter) endStream() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.finished {
		w.ctl.SetWriteDeadline(time.Unix(1, 0))
	}
}

// finish is called when the handler returns: nothing may use the response after that.
func (w *responseWriter) finish() {
	w.stopStall()
	w.mu.Lock()
	w.final, w.finished = true, true
	w.mu.Unlock()
}

// informational is the trace that passes 1xx responses of the upstream on, except 100,
// which net/http sends itself; nil for a client of HTTP/1.0, which does not know them.
func (w *responseWriter) informational() *httptrace.ClientTrace {
	if w.proto < 11 {
		return nil
	}
	// A 1xx response may come after the next attempt has begun with another token.
	token := w.request.Token()
	return &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error { return w.inform(code, h, token) }}
}

// inform writes a 1xx response, in which token is hidden.
func (w *responseWriter) inform(code int, h textproto.MIMEHeader, token *redact.Finder) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.final || code == http.StatusContinue || code == http.StatusSwitchingProtocols {
		return nil
	}
	out := w.ResponseWriter.Header()
	for k, v := range h {
		if !strings.HasPrefix(k, dispatch.HeaderPrefix) {
			out[k] = v
		}
	}
	stripHop(out)
	token.Headers(out, dispatch.InPlaceOfToken)
	w.ResponseWriter.WriteHeader(code)
	clear(out)
	return nil
}
