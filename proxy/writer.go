package proxy

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/redact"
)

// answerWriter is what goproxy writes a response to. It has no ReadFrom, so
// that a head and a small body leave in one write, and keeps net/http from
// adding headers that the upstream did not send.
type answerWriter struct {
	http.ResponseWriter
	*exchange
	ctl       *http.ResponseController
	proto     int  // 10, 11, 20
	unclear   bool // where the request ends
	status    int
	began     bool
	wroteHead time.Time
	head      http.Header // the upstream's, on its way around goproxy, which would copy it value by value

	watch *time.Timer // under HTTP/2: cuts a stream whose client opens no window

	informing sync.Mutex // held while somebody but the handler touches the response
	over      bool       // no 1xx any more
	gone      bool       // the handler has returned
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *answerWriter) WriteHeader(code int) {
	w.endInformation()
	h := w.Header()
	for k, v := range w.head {
		if !strings.HasPrefix(k, wishPrefix) { // those are ours to say
			h[k] = v
		}
	}
	if _, named := h["Content-Type"]; !named {
		h["Content-Type"] = nil // no sniffing
	}
	if code == http.StatusNoContent || w.proto >= 20 && code == http.StatusNotModified {
		// A 204 may not have one. The length that a 200 would have had is
		// allowed in a 304, but over HTTP/2 some clients then wait for it.
		delete(h, "Content-Length")
	}
	if w.state.policy.Abide.Headers && w.site != "" {
		w.mark(h)
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

// mark tells the client what its request went through.
func (w *answerWriter) mark(h http.Header) {
	h["Abide-Site"] = []string{w.site}
	h["Abide-Wait"], h["Abide-Attempts"] = noWait, oneAttempt
	t := &w.turn
	if t.waited >= time.Millisecond {
		h["Abide-Wait"] = []string{strconv.FormatFloat(t.waited.Seconds(), 'f', 3, 64)}
	}
	if t.would != nil {
		h["Abide-Would-Limit"] = []string{t.would.Limit}
		if !t.would.Until.IsZero() {
			h["Abide-Would-Wait"] = []string{strconv.FormatFloat(max(t.would.Until.Sub(w.first).Seconds(), 0), 'f', 3, 64)}
		}
	}
	if t.joined {
		h["Abide-Coalesced"] = oneAttempt
	}
	if t.label != "" {
		h["Abide-Token"] = []string{t.label}
	}
	switch {
	case w.first.IsZero():
		h["Abide-Attempts"] = noWait
	case t.sent > 1:
		h["Abide-Attempts"] = []string{strconv.Itoa(t.sent)}
	}
}

// closes tells whether the client's connection must end with this answer: what
// is left of a body that nobody wants would be taken for the next request.
func (w *answerWriter) closes() bool {
	return w.proto < 20 && (w.unclear || !w.upload.whole())
}

// unclear tells whether another reader could see the request end elsewhere than
// net/http does, which does not tell of a body of HTTP/1.0 that says it is chunked,
// nor of a Content-Length beside Transfer-Encoding (RFC 9112, 6.1 and 6.3). The
// connection must end with its answer then.
func unclear(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	w.watched()
	n, err := w.ResponseWriter.Write(p)
	w.unwatched()
	return n, err
}

// Flush is what http.ResponseController finds first.
func (w *answerWriter) Flush() {
	w.watched()
	w.ctl.Flush()
	w.unwatched()
}

// watched gives the client timeouts.stall to take what is being written. Under
// HTTP/1 the connection sees to that; a stream of HTTP/2 can stand still while
// its connection moves.
func (w *answerWriter) watched() {
	if w.proto < 20 {
		return
	}
	stall := w.state.policy.Timeouts.Stall
	if w.watch == nil {
		w.watch = time.AfterFunc(stall, w.cut)
	} else {
		w.watch.Reset(stall)
	}
}

// cut ends the stream, unless the handler has returned meanwhile.
func (w *answerWriter) cut() {
	w.informing.Lock()
	defer w.informing.Unlock()
	if !w.gone {
		w.ctl.SetWriteDeadline(time.Unix(1, 0))
	}
}

// finish is for the handler's end: nothing may touch the response after it.
func (w *answerWriter) finish() {
	w.unwatched()
	w.informing.Lock()
	w.over, w.gone = true, true
	w.informing.Unlock()
}

func (w *answerWriter) unwatched() {
	if w.watch != nil {
		w.watch.Stop()
	}
}

// information is the trace that passes 1xx answers of the upstream on, all but
// 100, which is ours to give; nil for a client that knows none.
func (w *answerWriter) information() *httptrace.ClientTrace {
	if w.proto < 11 {
		return nil
	}
	// One may come when another attempt is under way with another token.
	shown := w.turn.shown
	return &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error { return w.inform(code, h, shown) }}
}

func (w *answerWriter) inform(code int, h textproto.MIMEHeader, shown *redact.Finder) error {
	w.informing.Lock()
	defer w.informing.Unlock()
	if w.over || code == http.StatusContinue || code == http.StatusSwitchingProtocols {
		return nil
	}
	out := w.ResponseWriter.Header()
	for k, v := range h {
		if !strings.HasPrefix(k, wishPrefix) {
			out[k] = v
		}
	}
	stripHop(out)
	shown.Headers(out, inPlaceOfToken)
	w.ResponseWriter.WriteHeader(code)
	clear(out)
	return nil
}

func (w *answerWriter) endInformation() {
	w.informing.Lock()
	w.over = true
	w.informing.Unlock()
}
