package proxy

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// responseWriter writes the response of a request. It has no ReadFrom, so that a head and a
// small body leave in one write, and prevents net/http from adding headers that the upstream
// did not send.
type responseWriter struct {
	http.ResponseWriter
	request *dispatch.Request
	upload  *upload // nil without a body
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
	w.endInformational()
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
	if w.closes() {
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

// closes tells whether the client's connection must end with this response, because the
// rest of the request's body would be read as the next request.
func (w *responseWriter) closes() bool {
	return w.proto < 20 && (w.unclear || !w.upload.whole())
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

func (w *responseWriter) endInformational() {
	w.mu.Lock()
	w.final = true
	w.mu.Unlock()
}
