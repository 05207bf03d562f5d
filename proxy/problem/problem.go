// Package problem has the answers that abide gives itself: refusals and failures, each
// with a fixed reason, status and text.
package problem

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
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

// errorType is the error type of Proxy-Status (RFC 9209): that of the problem, or the usual one of its status.
func (a *Problem) errorType() string {
	switch a.Status {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return cmp.Or(a.proxy, "http_request_denied")
	}
	return cmp.Or(a.proxy, "http_request_error")
}

// Response is the answer for the request's path. site may be empty.
func (a *Problem) Response(r *http.Request, site string) *http.Response {
	document := Document{Type: "urn:abide:" + a.Reason, Title: a.Title, Status: a.Status, Detail: a.Detail, Site: site, Limit: a.Limit, Help: helpPage + a.Reason}
	if !a.At.IsZero() {
		document.At = a.At.UTC().Format(time.RFC3339)
	}
	text, _ := json.Marshal(document) // a struct of strings and a number always encodes
	text = append(text, '\n')
	h := make(http.Header, 6)
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	h.Set("Proxy-Status", `abide; error=`+a.errorType()+`; details="`+a.Reason+`"`)
	if a.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(a.Retry/time.Second)))
	}
	if a.Header[0] != "" {
		h.Set(a.Header[0], a.Header[1])
	}
	// Connection has a meaning in HTTP/1 only; over HTTP/2 net/http would end the connection, and
	// other requests with it.
	if a.Close && r.ProtoMajor < 2 {
		h.Set("Connection", "close")
	}
	resp := &http.Response{
		StatusCode: a.Status, Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(text)), Request: r,
		Body: io.NopCloser(bytes.NewReader(text)),
	}
	if r.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// Write is the answer for a handler that has not come to the request's path.
func (a *Problem) Write(w http.ResponseWriter, r *http.Request) {
	resp := a.Response(r, "")
	maps.Copy(w.Header(), resp.Header)
	if UnclearEnd(r) {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(a.Status)
	_, _ = io.Copy(w, resp.Body) // the client may have left
}

// WriteRaw is the answer on a connection that no http.Server reads.
func (a *Problem) WriteRaw(w io.Writer) error {
	resp := a.Response(&http.Request{ProtoMajor: 1}, "")
	resp.Header.Set("Connection", "close")
	var b bytes.Buffer
	_ = resp.Write(&b) // a Buffer takes everything
	_, err := b.WriteTo(w)
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
