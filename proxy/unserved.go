package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
)

// HTTP/1 requests that net/http cannot read, or refuses, come to no handler: it writes a
// few words itself. That is the only time in which something is written to a client of
// HTTP/1 while no request is served, so it is known by that, and answers of ours are
// written in its place.

// Of requests that come to no handler.
var (
	answerMalformed = answer{
		reason: "malformed", status: 400, title: "this is no request of HTTP",
		detail: "its first line, a header or its framing breaks the rules",
		proxy:  "http_request_error", close: true,
	}
	answerLargeHead = answer{
		reason: "large_head", status: 431, title: "the head of the request is too large",
		detail: "request line and headers may have 64 KiB",
		proxy:  "http_request_error", close: true,
	}
	answerCoding = answer{
		reason: "coding", status: 501, title: "this Transfer-Encoding is not known",
		detail: "a request may say chunked, once",
		proxy:  "http_request_error", close: true,
	}
)

// unserved is the answer of ours in the place of what net/http writes about a request that
// it does not hand on; nil if that is no answer that refuses one.
func unserved(text []byte) *answer {
	if !bytes.HasPrefix(text, []byte("HTTP/1.")) || len(text) < len("HTTP/1.1 400") {
		return nil
	}
	switch string(text[len("HTTP/1.1 "):len("HTTP/1.1 400")]) {
	case "400":
		return &answerMalformed
	case "417":
		return &answerExpectation
	case "431":
		return &answerLargeHead
	case "501":
		return &answerCoding
	case "505":
		return &answerVersion
	}
	return nil
}

// say writes what net/http wants written, or the answer of ours in its place.
func (c *clientConn) say(to io.Writer, p []byte) (int, error) {
	if c.serving.Load() {
		return to.Write(p)
	}
	no := unserved(p)
	if no == nil {
		return to.Write(p)
	}
	if c.refused != nil {
		c.refused(no.reason)
	}
	if err := no.writeRaw(to); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Write is tls.Conn's, but for what net/http says itself.
func (o *opened) Write(p []byte) (int, error) { return o.under.say(o.Conn, p) }

// served hears from net/http that a request is over.
func served(c net.Conn, state http.ConnState) {
	if conn := bareConn(c); conn != nil && state == http.StateIdle {
		conn.serving.Store(false)
	}
}
