// Package problem has the answers that abide gives itself: refusals and failures, each
// with a fixed reason, status and text.
package problem

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an answer of abide itself, in place of a site's: a problem document of RFC
// 9457. All of them stand in list.go and upstream.go. Their texts are fixed: nothing
// of a request, an address or an error's text gets into them, but for the names and
// dates of a certificate that a site shows to everybody, and the host of a Forbidden.
type Problem struct {
	Reason string // of own_refusals_total, and the problem's type
	Status int
	Title  string
	Detail string        // what the reader can do about it
	proxy  string        // the error type of Proxy-Status (RFC 9209), "": the usual one of its status
	Retry  time.Duration // Retry-After, where waiting helps
	Header [2]string     // one more header
	Close  bool          // the connection cannot be used any further
	Limit  string        // what refuses, in the operator's words
	At     time.Time     // when it would not any more
}

// Error has a problem be an error, by its title.
func (a *Problem) Error() string { return a.Title }

// Until is the answer with what refuses and when that ends, as far as it is known.
func (a Problem) Until(limit string, at, now time.Time) *Problem {
	a.Limit, a.At = limit, at
	if !at.IsZero() {
		a.Retry = max(at.Sub(now), 0) + time.Second - 1 // rounded up
	}
	return &a
}

// With is the answer with another detail, in words of the configuration.
func (a Problem) With(detail string) *Problem {
	a.Detail = detail
	return &a
}

// LastCause is the answer with how the site failed last.
func (a *Problem) LastCause(cause string) *Problem {
	if cause != "" {
		a.Detail += "; the last time because " + cause
	}
	return a
}

// helpPage has an anchor for every reason: what it means and what to do.
const helpPage = "https://github.com/abide-proxy/abide/blob/main/docs/troubleshooting.md#"

// Document is the JSON of RFC 9457. Type is the name of the problem, Help a page about it.
type Document struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Site   string `json:"site,omitempty"`
	Limit  string `json:"limit,omitempty"`
	At     string `json:"retry_at,omitempty"`
	Help   string `json:"help"`
}

// body is the problem document; site may be empty.
func (a *Problem) body(site string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true)
	p := Document{Type: "urn:abide:" + a.Reason, Title: a.Title, Status: a.Status, Detail: a.Detail, Site: site, Limit: a.Limit, Help: helpPage + a.Reason}
	if !a.At.IsZero() {
		p.At = a.At.UTC().Format(time.RFC3339)
	}
	// A struct of strings and a number always encodes.
	_ = e.Encode(p)
	return b.Bytes()
}

// errorType is the error type of Proxy-Status (RFC 9209): that of the problem, or the usual one of its status.
func (a *Problem) errorType() string {
	switch a.Status {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return cmp.Or(a.proxy, "http_request_denied")
	}
	return cmp.Or(a.proxy, "http_request_error")
}

// headers fills h. Connection has a meaning in HTTP/1 only; over HTTP/2 net/http
// would end the connection, and other requests with it.
func (a *Problem) headers(h http.Header, major int) {
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Proxy-Status", `abide; error=`+a.errorType()+`; details="`+a.Reason+`"`)
	if a.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(a.Retry/time.Second)))
	}
	if a.Header[0] != "" {
		h.Set(a.Header[0], a.Header[1])
	}
	if a.Close && major < 2 {
		h.Set("Connection", "close")
	}
}

// Response is the answer for the request's path.
func (a *Problem) Response(r *http.Request, site string) *http.Response {
	body := a.body(site)
	h := make(http.Header, 6)
	a.headers(h, r.ProtoMajor)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	resp := &http.Response{
		StatusCode: a.Status, Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Request: r,
		Body: io.NopCloser(bytes.NewReader(body)),
	}
	if r.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// Write is the answer for a handler that has not come to the request's path.
func (a *Problem) Write(w http.ResponseWriter, r *http.Request) {
	body := a.body("")
	a.headers(w.Header(), r.ProtoMajor)
	if UnclearEnd(r) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// WriteRaw is the answer on a connection that no http.Server reads.
func (a *Problem) WriteRaw(w io.Writer) error {
	body := a.body("")
	h := http.Header{}
	a.headers(h, 1)
	h.Set("Connection", "close")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	h.Write(&b)
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	_, err := io.WriteString(w, b.String())
	return err
}

// UnclearEnd tells whether another reader could see a request end elsewhere than
// net/http does, which does not tell of a body of HTTP/1.0 that says it is chunked,
// nor of a Content-Length beside Transfer-Encoding (RFC 9112, 6.1 and 6.3). The
// connection must end with the answer then.
func UnclearEnd(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}

// AllowedMethods is the Allow header of a 405.
const AllowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
