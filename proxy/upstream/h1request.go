package upstream

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// outgoing is a request with all decisions about how it is written.
type outgoing struct {
	waitedForConn bool // it had to wait for a connection; reset when reported
	req           *http.Request
	to            hostKey
	forward       bool   // absolute form, for the next hop
	auth          string // Proxy-Authorization, with forward
	length        int64  // of the body; 0: no body, -1: chunked
	upgrade       string // the protocol named in Upgrade
	close         bool   // the request says Connection: close

	body      io.ReadCloser // nil if there is none
	bodyTaken bool          // another goroutine or package reads and closes the body
}

var (
	errNoURL     = errors.New("request without an absolute http or https URL")
	errMethod    = errors.New("request method is not a token, or is CONNECT")
	errHost      = errors.New("request host has bytes that no host has")
	errTarget    = errors.New("request target has a space or a control character")
	errFieldName = errors.New("request header name is not a token")
	errField     = errors.New("request header value has a control character")
)

// prepare validates all parts of the request that are written, so that no value can contain
// a line end and inject a header.
func prepare(req *http.Request) (outgoing, error) {
	o := outgoing{req: req, close: req.Close}
	u := req.URL
	if u == nil || u.Host == "" {
		return o, errNoURL
	}
	o.to.secure = u.Scheme == "https"
	var err error
	if o.to.name, o.to.port, err = hostPort(u); err != nil {
		return o, err
	}
	if req.Host != "" && !cleanHost(req.Host) {
		return o, errHost
	}
	if req.Method != "" && !httpguts.ValidHeaderFieldName(req.Method) || req.Method == http.MethodConnect {
		return o, errMethod
	}
	if !cleanTarget(u.RawQuery) || !cleanTarget(u.Opaque) {
		return o, errTarget
	}
	if err := checkFields(req.Header); err != nil {
		return o, err
	}
	if err := checkFields(req.Trailer); err != nil {
		return o, err
	}
	if up := req.Header["Upgrade"]; len(up) > 0 {
		o.upgrade = up[0]
	}
	if c := req.Header["Connection"]; len(c) > 0 && httpguts.HeaderValuesContainsToken(c, "close") {
		o.close = true
	}
	if req.Body != nil && req.Body != http.NoBody {
		o.body = req.Body
		if o.length = req.ContentLength; o.length <= 0 { // 0 is not known beside a body
			o.length = -1
		}
	}
	return o, nil
}

func checkFields(h http.Header) error {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return errFieldName
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return errField
			}
		}
	}
	return nil
}

// hostPort returns the host of an http or https URL, without brackets, and its port.
func hostPort(u *url.URL) (host string, port uint16, err error) {
	switch u.Scheme {
	case "http":
		port = 80
	case "https":
		port = 443
	default:
		return "", 0, errNoURL
	}
	host = u.Hostname()
	if bare := !strings.HasPrefix(u.Host, "["); !cleanHost(host) || host == "" || strings.ContainsAny(host, "[]") || bare && strings.Contains(host, ":") {
		return "", 0, errHost
	}
	if p := u.Port(); p != "" {
		number, err := strconv.ParseUint(p, 10, 16)
		if err != nil || number == 0 {
			return "", 0, errHost
		}
		port = uint16(number)
	}
	return host, port, nil
}

func cleanHost(s string) bool { return cleanTarget(s) && !strings.ContainsAny(s, `/\?#@,`) }

func cleanTarget(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// writeHead writes the request line and the header to w. Errors are reported by Flush.
func (o *outgoing) writeHead(w *bufio.Writer) {
	req := o.req
	method := cmp.Or(req.Method, http.MethodGet)
	w.WriteString(method)
	w.WriteByte(' ')
	o.writeTarget(w, method)
	w.WriteString(" HTTP/1.1\r\nHost: ")
	if req.Host != "" {
		w.WriteString(req.Host)
	} else {
		w.WriteString(req.URL.Host)
	}
	w.WriteString("\r\n")
	if o.auth != "" {
		writeField(w, "Proxy-Authorization", o.auth)
	}
	zero := false // the request has Content-Length: 0
	for name, values := range req.Header {
		if isConnectionField(name) {
			zero = zero || len(name) == len("Content-Length")
			continue
		}
		for _, v := range values {
			writeField(w, name, v)
		}
	}
	switch {
	case o.upgrade != "":
		w.WriteString("Connection: Upgrade\r\n")
	case o.close:
		w.WriteString("Connection: close\r\n")
	}
	switch {
	case o.length < 0:
		w.WriteString("Transfer-Encoding: chunked\r\n")
		o.announceTrailers(w)
	case o.length > 0:
		w.WriteString("Content-Length: ")
		var digits [20]byte
		w.Write(strconv.AppendInt(digits[:0], o.length, 10))
		w.WriteString("\r\n")
	case zero || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch:
		w.WriteString("Content-Length: 0\r\n")
	}
	w.WriteString("\r\n")
}

// isConnectionField tells which header fields describe this connection. They are never
// copied, whatever their spelling.
func isConnectionField(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Trailer", "Connection", "Keep-Alive", "Content-Length", "Proxy-Connection", "Transfer-Encoding":
		return true
	}
	return false
}

// writeTarget writes the target in origin form, or in absolute form for a next hop.
func (o *outgoing) writeTarget(w *bufio.Writer, method string) {
	u := o.req.URL
	if o.forward {
		w.WriteString(u.Scheme)
		w.WriteString("://")
		w.WriteString(u.Host)
	}
	path := cmp.Or(u.Opaque, u.EscapedPath())
	if method == http.MethodOptions && (path == "" || path == "*") && u.RawQuery == "" && !u.ForceQuery {
		if !o.forward {
			w.WriteByte('*')
		}
		return // a next hop sends the absolute form without a path as "*"
	}
	if path == "" || path[0] != '/' {
		w.WriteByte('/')
	}
	w.WriteString(path)
	if u.ForceQuery || u.RawQuery != "" {
		w.WriteByte('?')
		w.WriteString(u.RawQuery)
	}
}

func (o *outgoing) announceTrailers(w *bufio.Writer) {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(o.req.Trailer)), func(name string) bool { return !allowedTrailer(name) })
	if len(names) > 0 {
		writeField(w, "Trailer", strings.Join(names, ", "))
	}
}

func writeField(w *bufio.Writer, name, value string) {
	w.WriteString(name)
	w.WriteString(": ")
	w.WriteString(value)
	w.WriteString("\r\n")
}

// allowedTrailer tells whether a field may be a trailer. Fields that frame or route a
// message may not.
func allowedTrailer(canonical string) bool {
	switch canonical {
	case "Transfer-Encoding", "Content-Length", "Trailer", "Host", "Connection":
		return false
	}
	return true
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// closeBody closes the body unless another owner does.
func (o *outgoing) closeBody() {
	if o.body != nil && !o.bodyTaken {
		o.body.Close()
		o.body = nil
	}
}

// rewind makes the body readable again from its start.
func (o *outgoing) rewind() bool {
	if !o.bodyTaken {
		return true
	}
	if o.req.GetBody == nil {
		return false
	}
	body, err := o.req.GetBody()
	if err != nil {
		return false
	}
	o.body, o.bodyTaken = body, false
	return true
}

// requestBodyError is a failure to read the request's body from the caller. The origin is
// not to blame.
type requestBodyError struct{ Err error }

func (e *requestBodyError) Error() string { return fmt.Sprintf("reading the request body: %v", e.Err) }

func (e *requestBodyError) Unwrap() error { return e.Err }
