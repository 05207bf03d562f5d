package problem

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// Of clients.
var (
	TooManyConnections = Problem{
		Reason: "connections", Status: 503, Title: "too many connections",
		Detail: "abide has as many client connections as bounds.connections allows; close some or raise it", Retry: time.Second, Close: true,
	}
	TooManyFromClient = Problem{
		Reason: "connections_per_client", Status: 429, Title: "too many connections from this address",
		Detail: "this address has as many connections as bounds.per_client allows; close some or raise it", Retry: time.Second, Close: true,
	}
	Stranger = Problem{
		Reason: "access_from", Status: 403, Title: "not allowed to connect",
		Detail: "access.from does not name this client's address", Close: true,
	}
	Revoked = Problem{
		Reason: "revoked", Status: 403, Title: "no longer allowed",
		Detail: "access.clients has changed since this connection was opened; open another", Close: true,
	}
	Authenticate = Problem{
		Reason: "proxy_authentication", Status: 407, Title: "proxy authentication required",
		Detail: "send Proxy-Authorization with a name and secret of access.clients, as in http://NAME:SECRET@HOST:PORT", Header: [2]string{"Proxy-Authenticate", `Basic realm="abide", charset="UTF-8"`},
	}
)

// Of requests.
var (
	NotAProxyRequest = Problem{
		Reason: "not_a_proxy_request", Status: 400, Title: "this is a proxy",
		Detail: "send it requests with a whole URL, or CONNECT; clients do so when HTTP_PROXY and HTTPS_PROXY name it",
	}
	BadTarget = Problem{
		Reason: "bad_target", Status: 400, Title: "the target is not a host name or address",
		Detail: "the URL, authority or Host header cannot be read as a host and port", Close: true,
	}
	Userinfo = Problem{
		Reason: "userinfo", Status: 400, Title: "the URL carries a user and password",
		Detail: "send them in an Authorization header",
	}
	Scheme = Problem{
		Reason: "scheme", Status: 501, Title: "this scheme is not proxied",
		Detail: "abide proxies http and https",
	}
	Version = Problem{
		Reason: "version", Status: 505, Title: "this version of HTTP is not spoken",
		Detail: "speak HTTP/1.0, HTTP/1.1 or, when intercepted, HTTP/2", Close: true,
	}
	Trace = Problem{
		Reason: "method", Status: 405, Title: "this method is refused",
		Detail: "TRACE and TRACK echo a request with the credentials in it", Header: [2]string{"Allow", AllowedMethods},
	}
	Method = Problem{
		Reason: "method", Status: 501, Title: "this method is not known",
		Detail: "methods are upper case and registered",
	}
	Expectation = Problem{
		Reason: "expectation", Status: 417, Title: "this expectation cannot be met",
		Detail: "Expect may say 100-continue",
	}
	LengthRequired = Problem{
		Reason: "length", Status: 400, Title: "this request needs a Content-Length",
		Detail: "HTTP/1.0 has no other way to say where a body ends", Close: true,
	}
	Trailers = Problem{
		Reason: "trailers", Status: 400, Title: "too many trailers",
		Detail: "a request may announce 64", Close: true,
	}
	Misdirected = Problem{
		Reason: "misdirected", Status: 421, Title: "Host differs from the CONNECT target",
		Detail: "one tunnel reaches one host; open another for the other host", Close: true,
	}
	Cleartext = Problem{
		Reason: "cleartext", Status: 400, Title: "cleartext where TLS was expected",
		Detail: "this CONNECT target is intercepted as https; send plain http as GET http://…, or CONNECT to port 80", Close: true,
	}
	PlainHTTP = Problem{
		Reason: "plain_http", Status: 400, Title: "plain http where the proxy speaks TLS",
		Detail: "listen_cert is set, so clients name this proxy with https://, as in curl --proxy https://HOST:PORT", Close: true,
	}
	ConnectBody = Problem{
		Reason: "connect_body", Status: 400, Title: "CONNECT with a body",
		Detail: "a CONNECT has no content", Close: true,
	}
	Port = Problem{
		Reason: "port", Status: 403, Title: "CONNECT to this port is not allowed",
		Detail: "egress.ports does not name it",
	}
	Forbidden = Problem{
		Reason: "forbidden", Status: 403, Title: "the operator does not allow this",
		Detail: "egress.hosts, or an entry of access.clients, does not allow it; the operator can change them",
	}
	Loop = Problem{
		Reason: "loop", Status: 508, Title: "the request came back",
		Detail: "it has passed this proxy before, or its target is this proxy or its store; look at egress.proxy, egress.resolve and HTTP_PROXY",
		proxy:  "proxy_loop_detected",
	}
	BadBody = Problem{
		Reason: "bad_body", Status: 400, Title: "the request's body cannot be read",
		Detail: "it broke off or its framing is wrong", Close: true,
	}
	SlowBody = Problem{
		Reason: "slow_body", Status: 408, Title: "the request's body came too slowly",
		Detail: "it made no progress within timeouts.stall, or took longer than timeouts.upload", Close: true,
	}
	LargeBody = Problem{
		Reason: "large_body", Status: 413, Title: "the request's body is too large",
		Detail: "bounds.upload allows less", Close: true,
	}
	Upgrade = Problem{
		Reason: "upgrade", Status: 502, Title: "the upstream's upgrade could not be relayed",
		Detail: "the client's connection cannot be taken over",
		proxy:  "http_upgrade_failed", Close: true,
	}
	Bug = Problem{
		Reason: "bug", Status: 500, Title: "abide failed",
		Detail: "this is a fault of abide; its log has the place",
		proxy:  "proxy_internal_error", Close: true,
	}
)

// Of the queue.
var (
	Wish = Problem{
		Reason: "wish", Status: 400, Title: "an Abide- header makes no sense",
		Detail: "Abide-Priority is 0 to 7, Abide-Max-Wait a duration such as 30s (0s: now or not at all), Abide-Cost a number from 1, Abide-Client a name of up to 64 bytes, Abide-Retry the word none; each once",
	}
	TooLong = Problem{
		Reason: "wait", Status: 429, Title: "the wait would be too long",
		Detail: "the limit named here keeps the request for longer than queue.wait or Abide-Max-Wait allow",
	}
	Never = Problem{
		Reason: "never", Status: 429, Title: "the request is larger than its limit",
		Detail: "its cost is more than the limit named here ever allows at once",
	}
	LongBody = Problem{
		Reason: "bytes", Status: 429, Title: "the answer is too long for its limit of bytes",
		Detail: "its announced length could not pass without standing still for longer than the limit's stall; ask again when there is room, raise the limit or its stall, or ask for a part",
	}
	StandsStill = Problem{
		Reason: "stall", Status: 504, Title: "a limit of bytes kept the answer still for too long",
		Detail: "no bytes were left for longer than the limit's stall; raise the limit or its stall",
		proxy:  "http_response_timeout",
	}
	Others = Problem{
		Reason: "shard", Status: 421, Title: "another crawler owns this URL",
		Detail: "shard in the configuration divides URLs between crawlers, and this one is not ours; Abide-Owner says whose it is",
		proxy:  "http_request_denied",
	}
	Permits = Problem{
		Reason: "permits", Status: 503, Title: "too many permits are out",
		Detail: "settle those that are over; one that nobody settles is out for a minute", Retry: time.Second,
	}
	QueueFull = Problem{
		Reason: "queue", Status: 503, Title: "the queue is full",
		Detail: "as many requests wait as queue.max or queue.per_site allow", Retry: 5 * time.Second,
	}
	Away = Problem{
		Reason: "store", Status: 503, Title: "the store does not answer",
		Detail: "the limit named here is kept in the store, and its outage rule lets nothing go without it; look at abide status", Retry: 5 * time.Second,
	}
	Insecure = Problem{
		Reason: "insecure", Status: 403, Title: "no token may go there",
		Detail: "the site's rule has a pool, whose tokens go to https on port 443 and to ports that the rule names, and over plain http only with insecure: true",
	}
	Exhausted = Problem{
		Reason: "exhausted", Status: 503, Title: "no token can go now",
		Detail: "the pool says exhausted: refuse; with wait the request would be held until the time named here", Retry: 5 * time.Second,
	}
	Draining = Problem{
		Reason: "draining", Status: 503, Title: "abide is stopping",
		Detail: "it holds no new requests; those that it had were given timeouts.drain", Retry: 5 * time.Second, Close: true,
	}
)

// Broken is for a site that is left alone for a while.
var Broken = Problem{
	Reason: "breaker", Status: 503, Title: "the site is being left alone",
	Detail: "it has failed breaker.failures times in a row; nothing new is sent to it until the time named here",
	proxy:  "destination_unavailable",
}

// Failed is for a site that failed, when the wait for another attempt turned
// out to be too long. Its status is the site's.
var Failed = Problem{
	Reason: "retry", Status: 503, Title: "the site failed",
	Detail: "it was to be asked again, but the limit named here keeps that for longer than queue.wait or Abide-Max-Wait allow",
	proxy:  "http_response_incomplete",
}

// StopOf returns the problem for which abide has ended the context of a request, nil if it has
// not.
func StopOf(ctx context.Context) *Problem {
	stop, _ := errors.AsType[*Problem](context.Cause(ctx))
	return stop
}

// Left is for nobody.
var Left = ofUpstream[upstream.Canceled]

// Of requests that come to no handler.
var (
	Malformed = Problem{
		Reason: "malformed", Status: 400, Title: "this is no request of HTTP",
		Detail: "its first line, a header or its framing breaks the rules", Close: true,
	}
	LargeHead = Problem{
		Reason: "large_head", Status: 431, Title: "the head of the request is too large",
		Detail: "request line and headers may have 64 KiB", Close: true,
	}
	Coding = Problem{
		Reason: "coding", Status: 501, Title: "this Transfer-Encoding is not known",
		Detail: "a request may say chunked, once", Close: true,
	}
)

// all are the problems that have a name.
var all = []*Problem{
	&TooManyConnections, &TooManyFromClient, &Stranger, &Revoked, &Authenticate, &NotAProxyRequest,
	&BadTarget, &Userinfo, &Scheme, &Version, &Trace, &Method, &Expectation, &LengthRequired,
	&Trailers, &Misdirected, &Cleartext, &PlainHTTP, &ConnectBody, &Port, &Forbidden, &Loop, &BadBody, &SlowBody, &LargeBody,
	&Upgrade, &Bug, &Wish, &TooLong, &Never, &LongBody, &StandsStill, &Others, &Permits, &QueueFull,
	&Away, &Insecure, &Exhausted, &Draining, &Broken, &Failed, &Malformed, &LargeHead, &Coding,
}

// Titles are the titles of all problems that a client may be told, by reason.
func Titles() map[string]string {
	titles := map[string]string{}
	for _, one := range slices.AppendSeq(slices.Clip(all), maps.Values(ofUpstream)) {
		titles[one.Reason] = one.Title
	}
	for fault, one := range ofTLS {
		titles[fault.String()] = one.Title
	}
	return titles
}
