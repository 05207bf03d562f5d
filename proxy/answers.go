package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/upstream"
)

// answer is something that abide says itself instead of an upstream. Every one
// of them stands in this file or in answers_tls.go. The words are fixed: nothing of
// a request, an address or an error's text gets into them, but for the names and
// dates of a certificate that a site shows to everybody.
type answer struct {
	reason string // of own_refusals_total, and the problem's type
	status int
	title  string
	detail string        // what the reader can do about it
	proxy  string        // the error type of Proxy-Status (RFC 9209), where one fits
	retry  time.Duration // Retry-After, where waiting helps
	header [2]string     // one more header
	close  bool          // the connection cannot be used any further
	limit  string        // what refuses, in the operator's words
	at     time.Time     // when it would not any more
}

// until is the answer with what refuses and when that ends, as far as it is known.
func (a answer) until(limit string, at, now time.Time) *answer {
	a.limit, a.at = limit, at
	if !at.IsZero() {
		a.retry = max(at.Sub(now), 0) + time.Second - 1 // rounded up
	}
	return &a
}

// after is the answer with how the site failed last.
func (a *answer) after(cause string) *answer {
	if cause != "" {
		a.detail += "; the last time because " + cause
	}
	return a
}

// Of clients.
var (
	answerTooManyConnections = answer{
		reason: "connections", status: 503, title: "too many connections",
		detail: "abide has as many client connections as bounds.connections allows; close some or raise it",
		proxy:  "http_request_denied", retry: time.Second, close: true,
	}
	answerTooManyFromClient = answer{
		reason: "connections_per_client", status: 429, title: "too many connections from this address",
		detail: "this address has as many connections as bounds.per_client allows; close some or raise it",
		proxy:  "http_request_denied", retry: time.Second, close: true,
	}
	answerStranger = answer{
		reason: "access_from", status: 403, title: "not allowed to connect",
		detail: "access.from does not name this client's address",
		proxy:  "http_request_denied", close: true,
	}
	answerRevoked = answer{
		reason: "revoked", status: 403, title: "no longer allowed",
		detail: "access.clients has changed since this connection was opened; open another",
		proxy:  "http_request_denied", close: true,
	}
	answerAuthenticate = answer{
		reason: "proxy_authentication", status: 407, title: "proxy authentication required",
		detail: "send Proxy-Authorization with a name and secret of access.clients, as in http://NAME:SECRET@HOST:PORT",
		proxy:  "http_request_denied", header: [2]string{"Proxy-Authenticate", `Basic realm="abide", charset="UTF-8"`},
	}
)

// Of requests.
var (
	answerNotAProxyRequest = answer{
		reason: "not_a_proxy_request", status: 400, title: "this is a proxy",
		detail: "send it requests with a whole URL, or CONNECT; clients do so when HTTP_PROXY and HTTPS_PROXY name it",
		proxy:  "http_request_error",
	}
	answerBadTarget = answer{
		reason: "bad_target", status: 400, title: "the target is not a host name or address",
		detail: "the URL, authority or Host header cannot be read as a host and port",
		proxy:  "http_request_error", close: true,
	}
	answerUserinfo = answer{
		reason: "userinfo", status: 400, title: "the URL carries a user and password",
		detail: "send them in an Authorization header",
		proxy:  "http_request_error",
	}
	answerScheme = answer{
		reason: "scheme", status: 501, title: "this scheme is not proxied",
		detail: "abide proxies http and https",
		proxy:  "http_request_error",
	}
	answerVersion = answer{
		reason: "version", status: 505, title: "this version of HTTP is not spoken",
		detail: "speak HTTP/1.0, HTTP/1.1 or, when intercepted, HTTP/2",
		proxy:  "http_request_error", close: true,
	}
	answerTrace = answer{
		reason: "method", status: 405, title: "this method is refused",
		detail: "TRACE and TRACK echo a request with the credentials in it",
		proxy:  "http_request_denied", header: [2]string{"Allow", allowedMethods},
	}
	answerMethod = answer{
		reason: "method", status: 501, title: "this method is not known",
		detail: "methods are upper case and registered",
		proxy:  "http_request_error",
	}
	answerExpectation = answer{
		reason: "expectation", status: 417, title: "this expectation cannot be met",
		detail: "Expect may say 100-continue",
		proxy:  "http_request_error",
	}
	answerLengthRequired = answer{
		reason: "length", status: 400, title: "this request needs a Content-Length",
		detail: "HTTP/1.0 has no other way to say where a body ends",
		proxy:  "http_request_error", close: true,
	}
	answerTrailers = answer{
		reason: "trailers", status: 400, title: "too many trailers",
		detail: "a request may announce 64", proxy: "http_request_error", close: true,
	}
	answerMisdirected = answer{
		reason: "misdirected", status: 421, title: "Host differs from the CONNECT target",
		detail: "one tunnel reaches one host; open another for the other host",
		proxy:  "http_request_error", close: true,
	}
	answerCleartext = answer{
		reason: "cleartext", status: 400, title: "cleartext where TLS was expected",
		detail: "this CONNECT target is intercepted as https; send plain http as GET http://…, or CONNECT to port 80",
		proxy:  "http_request_error", close: true,
	}
	answerConnectBody = answer{
		reason: "connect_body", status: 400, title: "CONNECT with a body",
		detail: "a CONNECT has no content",
		proxy:  "http_request_error", close: true,
	}
	answerPort = answer{
		reason: "port", status: 403, title: "CONNECT to this port is not allowed",
		detail: "egress.ports does not name it",
		proxy:  "http_request_denied",
	}
	answerLoop = answer{
		reason: "loop", status: 508, title: "the request came back",
		detail: "it has passed this proxy before, or its target is this proxy or its store; look at egress.proxy, egress.resolve and HTTP_PROXY",
		proxy:  "proxy_loop_detected",
	}
	answerBadBody = answer{
		reason: "bad_body", status: 400, title: "the request's body cannot be read",
		detail: "it broke off or its framing is wrong",
		proxy:  "http_request_error", close: true,
	}
	answerSlowBody = answer{
		reason: "slow_body", status: 408, title: "the request's body came too slowly",
		detail: "it made no progress within timeouts.stall, or took longer than timeouts.upload",
		proxy:  "http_request_error", close: true,
	}
	answerLargeBody = answer{
		reason: "large_body", status: 413, title: "the request's body is too large",
		detail: "bounds.upload allows less",
		proxy:  "http_request_error", close: true,
	}
	answerUpgrade = answer{
		reason: "upgrade", status: 502, title: "the upstream's upgrade could not be relayed",
		detail: "the client's connection cannot be taken over",
		proxy:  "http_upgrade_failed", close: true,
	}
	answerBug = answer{
		reason: "bug", status: 500, title: "abide failed",
		detail: "this is a fault of abide; its log has the place",
		proxy:  "proxy_internal_error", close: true,
	}
)

// Of the queue.
var (
	answerWish = answer{
		reason: "wish", status: 400, title: "an Abide- header makes no sense",
		detail: "Abide-Priority is 0 to 7, Abide-Max-Wait a duration such as 30s (0s: now or not at all), Abide-Cost a number from 1, Abide-Client a name of up to 64 bytes, Abide-Retry the word none; each once",
		proxy:  "http_request_error",
	}
	answerTooLong = answer{
		reason: "wait", status: 429, title: "the wait would be too long",
		detail: "the limit named here keeps the request for longer than queue.wait or Abide-Max-Wait allow",
		proxy:  "http_request_denied",
	}
	answerNever = answer{
		reason: "never", status: 429, title: "the request is larger than its limit",
		detail: "its cost is more than the limit named here ever allows at once",
		proxy:  "http_request_denied",
	}
	answerLongBody = answer{
		reason: "bytes", status: 429, title: "the answer is too long for its limit of bytes",
		detail: "its announced length could not pass without standing still for longer than the limit's stall; ask again when there is room, raise the limit or its stall, or ask for a part",
		proxy:  "http_request_denied",
	}
	answerStandsStill = answer{
		reason: "stall", status: 504, title: "a limit of bytes kept the answer still for too long",
		detail: "no bytes were left for longer than the limit's stall; raise the limit or its stall",
		proxy:  "http_response_timeout",
	}
	answerOthers = answer{
		reason: "shard", status: 421, title: "another crawler owns this URL",
		detail: "shard in the configuration divides URLs between crawlers, and this one is not ours; Abide-Owner says whose it is",
		proxy:  "http_request_denied",
	}
	answerPermits = answer{
		reason: "permits", status: 503, title: "too many permits are out",
		detail: "settle those that are over; one that nobody settles is out for a minute",
		proxy:  "http_request_denied", retry: time.Second,
	}
	answerQueueFull = answer{
		reason: "queue", status: 503, title: "the queue is full",
		detail: "as many requests wait as queue.max or queue.per_site allow",
		proxy:  "http_request_denied", retry: 5 * time.Second,
	}
	answerAway = answer{
		reason: "store", status: 503, title: "the store does not answer",
		detail: "the limit named here is kept in the store, and its outage rule lets nothing go without it; look at abide status",
		proxy:  "http_request_denied", retry: 5 * time.Second,
	}
	answerInsecure = answer{
		reason: "insecure", status: 403, title: "no token may go there",
		detail: "the site's rule has a pool, whose tokens go to https on port 443 and to ports that the rule names, and over plain http only with insecure: true",
		proxy:  "http_request_denied",
	}
	answerExhausted = answer{
		reason: "exhausted", status: 503, title: "no token can go now",
		detail: "the pool says exhausted: refuse; with wait the request would be held until the time named here",
		proxy:  "http_request_denied", retry: 5 * time.Second,
	}
	answerDraining = answer{
		reason: "draining", status: 503, title: "abide is stopping",
		detail: "it takes no new requests; what it held had timeouts.drain",
		proxy:  "http_request_denied", retry: 5 * time.Second, close: true,
	}
)

// answerBroken is for a site that is left alone for a while.
var answerBroken = answer{
	reason: "breaker", status: 503, title: "the site is being left alone",
	detail: "it has failed breaker.failures times in a row; nothing new is sent to it until the time named here",
	proxy:  "destination_unavailable",
}

// answerFailed is for a site that failed, when the wait for another attempt turned
// out to be too long. Its status is the site's.
var answerFailed = answer{
	reason: "retry", status: 503, title: "the site failed",
	detail: "it was to be asked again, but the limit named here keeps that for longer than queue.wait or Abide-Max-Wait allow",
	proxy:  "http_response_incomplete",
}

// as is the answer with another status.
func (a answer) as(status int) *answer {
	a.status = status
	return &a
}

// answerLeft is for nobody.
var answerLeft = upstreamAnswers[upstream.Canceled]

// Of upstreams, by the kind of failure.
var upstreamAnswers = map[upstream.Kind]*answer{
	upstream.Unknown: {
		reason: "upstream", status: 502, title: "the upstream failed",
		detail: "abide could not get an answer", proxy: "proxy_internal_response",
	},
	upstream.Resolve: {
		reason: "resolve", status: 502, title: "the host name does not resolve",
		detail: "check the name, and the resolver of the machine that abide runs on", proxy: "dns_error", retry: 5 * time.Second,
	},
	upstream.Refused: {
		reason: "refused", status: 502, title: "the host refused the connection",
		detail: "nobody listens on that port", proxy: "connection_refused", retry: 5 * time.Second,
	},
	upstream.Unreachable: {
		reason: "unreachable", status: 502, title: "the host cannot be reached",
		detail: "there is no route to it", proxy: "destination_ip_unroutable", retry: 5 * time.Second,
	},
	upstream.ConnectTimeout: {
		reason: "connect_timeout", status: 504, title: "connecting took too long",
		detail: "timeouts.connect, or timeouts.handshake for TLS, has passed", proxy: "connection_timeout", retry: 5 * time.Second,
	},
	upstream.Forbidden: {
		reason: "destination", status: 403, title: "this destination is not allowed",
		detail: "its address is private, special or a metadata service; egress.allow can name private ones", proxy: "destination_ip_prohibited",
	},
	upstream.Self:   &answerLoop,
	upstream.Budget: &answerStandsStill,
	upstream.AnswerTimeout: {
		reason: "answer_timeout", status: 504, title: "the host did not answer in time",
		detail: "timeouts.answer has passed", proxy: "http_response_timeout", retry: 5 * time.Second,
	},
	upstream.Stalled: {
		reason: "stalled", status: 504, title: "the host stopped in the middle",
		detail: "timeouts.stall has passed without a byte", proxy: "connection_read_timeout", retry: 5 * time.Second,
	},
	upstream.Closed: {
		reason: "closed", status: 502, title: "the host closed the connection before it answered",
		detail: "send the request again if it may be sent twice", proxy: "connection_terminated", retry: time.Second,
	},
	upstream.Protocol: {
		reason: "protocol", status: 502, title: "the host's answer is not safe HTTP",
		detail: "its head, framing or length breaks the rules in a way that could be misread", proxy: "http_protocol_error",
	},
	upstream.Files: {
		reason: "files", status: 503, title: "out of files or ports",
		detail: "raise the open-file limit of abide (ulimit -n)", proxy: "proxy_internal_error", retry: time.Second,
	},
	upstream.Hop: {
		reason: "next_hop", status: 502, title: "the next proxy refused or failed",
		detail: "look at egress.proxy, its name and password, and what that proxy says", proxy: "connection_refused", retry: 5 * time.Second,
	},
	upstream.Canceled: {
		reason: "canceled", status: 499, title: "the client left",
		detail: "nobody reads this",
	},
}

func upstreamAnswer(err error) *answer {
	kind, failure := upstream.KindOf(err), upstream.TLSFailureOf(err)
	switch {
	case kind == upstream.TLS && failure == nil:
		return tlsAnswer(&upstream.TLSFailure{})
	case kind == upstream.TLS:
		return tlsAnswer(failure)
	case failure != nil:
		return hopTLS(failure)
	}
	if a := upstreamAnswers[kind]; a != nil {
		return a
	}
	return upstreamAnswers[upstream.Unknown]
}

// helpPage has an anchor for every reason: what it means and what to do.
const helpPage = "https://github.com/abide-proxy/abide/blob/main/docs/troubleshooting.md#"

// problem is RFC 9457. Type is the name of the problem, Help a page about it.
type problem struct {
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
func (a *answer) body(site string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true)
	p := problem{Type: "urn:abide:" + a.reason, Title: a.title, Status: a.status, Detail: a.detail, Site: site, Limit: a.limit, Help: helpPage + a.reason}
	if !a.at.IsZero() {
		p.At = a.at.UTC().Format(time.RFC3339)
	}
	// A struct of strings and a number always encodes.
	_ = e.Encode(p)
	return b.Bytes()
}

// headers fills h. Connection has a meaning in HTTP/1 only; over HTTP/2 net/http
// would end the connection, and other requests with it.
func (a *answer) headers(h http.Header, major int) {
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	status := "abide"
	if a.proxy != "" {
		status += "; error=" + a.proxy
	}
	h.Set("Proxy-Status", status+`; details="`+a.reason+`"`)
	if a.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(a.retry/time.Second)))
	}
	if a.header[0] != "" {
		h.Set(a.header[0], a.header[1])
	}
	if a.close && major < 2 {
		h.Set("Connection", "close")
	}
}

// response is the answer for the request's path.
func (a *answer) response(r *http.Request, site string) *http.Response {
	body := a.body(site)
	h := make(http.Header, 6)
	a.headers(h, r.ProtoMajor)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	resp := &http.Response{
		StatusCode: a.status, Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Request: r,
		Body: io.NopCloser(bytes.NewReader(body)),
	}
	if r.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// write is the answer for a handler that has not come to the request's path.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	body := a.body("")
	a.headers(w.Header(), r.ProtoMajor)
	if unclear(r) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// writeRaw is the answer on a connection that no http.Server reads.
func (a *answer) writeRaw(w io.Writer) error {
	body := a.body("")
	h := http.Header{}
	a.headers(h, 1)
	h.Set("Connection", "close")
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	h.Write(&b)
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	_, err := io.WriteString(w, b.String())
	return err
}
