package proxy

import (
	"bytes"
	"io"
	"sync/atomic"

	"github.com/abide-proxy/abide/proxy/problem"
)

// httpErrors replaces the error responses that net/http writes by itself, for HTTP/1
// requests that it cannot read and therefore gives to no handler. net/http writes to an
// HTTP/1 client outside a handler only then, so such a response is known by that.
type httpErrors struct {
	inHandler atomic.Bool         // from the begin of a request's handler to the end of the request
	refused   func(reason string) // counts a response that was replaced; nil: nothing counts
}

// write writes p to a client, or abide's error response if p is one of net/http's.
func (e *httpErrors) write(to io.Writer, p []byte) (int, error) {
	if e.inHandler.Load() {
		return to.Write(p)
	}
	replacement := problemOf(p)
	if replacement == nil {
		return to.Write(p)
	}
	if e.refused != nil {
		e.refused(replacement.Reason)
	}
	if err := replacement.WriteRaw(to); err != nil {
		return 0, err
	}
	return len(p), nil
}

// problemOf is abide's counterpart of an error response of net/http, nil if text is
// no such response.
func problemOf(text []byte) *problem.Problem {
	if !bytes.HasPrefix(text, []byte("HTTP/1.")) || len(text) < len("HTTP/1.1 400") {
		return nil
	}
	switch string(text[len("HTTP/1.1 "):len("HTTP/1.1 400")]) {
	case "400":
		return &problem.Malformed
	case "417":
		return &problem.Expectation
	case "431":
		return &problem.LargeHead
	case "501":
		return &problem.Coding
	case "505":
		return &problem.Version
	}
	return nil
}
