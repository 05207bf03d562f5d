package problem

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/status"
)

// ofUpstream are the problems of upstreams, by the kind of failure.
var ofUpstream = map[upstream.Kind]*Problem{
	upstream.Unknown: {
		Reason: "upstream", Status: 502, Title: "the upstream failed",
		Detail: "abide could not get an answer", proxy: "proxy_internal_response",
	},
	upstream.Resolve: {
		Reason: "resolve", Status: 502, Title: "the host name does not resolve",
		Detail: "check the name, and the resolver of the machine that abide runs on", proxy: "dns_error", Retry: 5 * time.Second,
	},
	upstream.Refused: {
		Reason: "refused", Status: 502, Title: "the host refused the connection",
		Detail: "nobody listens on that port", proxy: "connection_refused", Retry: 5 * time.Second,
	},
	upstream.Unreachable: {
		Reason: "unreachable", Status: 502, Title: "the host cannot be reached",
		Detail: "there is no route to it", proxy: "destination_ip_unroutable", Retry: 5 * time.Second,
	},
	upstream.ConnectTimeout: {
		Reason: "connect_timeout", Status: 504, Title: "connecting took too long",
		Detail: "timeouts.connect, or timeouts.handshake for TLS, has passed", proxy: "connection_timeout", Retry: 5 * time.Second,
	},
	upstream.Forbidden: {
		Reason: "destination", Status: 403, Title: "this destination is not allowed",
		Detail: "its address is private, special or a metadata service; egress.allow can name private ones", proxy: "destination_ip_prohibited",
	},
	upstream.Self:   &Loop,
	upstream.Budget: &StandsStill,
	upstream.AnswerTimeout: {
		Reason: "answer_timeout", Status: 504, Title: "the host did not answer in time",
		Detail: "timeouts.answer has passed", proxy: "http_response_timeout", Retry: 5 * time.Second,
	},
	upstream.Stalled: {
		Reason: "stalled", Status: 504, Title: "the host stopped in the middle",
		Detail: "timeouts.stall has passed without a byte", proxy: "connection_read_timeout", Retry: 5 * time.Second,
	},
	upstream.Closed: {
		Reason: "closed", Status: 502, Title: "the host closed the connection before it answered",
		Detail: "send the request again if it may be sent twice", proxy: "connection_terminated", Retry: time.Second,
	},
	upstream.Protocol: {
		Reason: "protocol", Status: 502, Title: "the host's answer is not safe HTTP",
		Detail: "its head, framing or length breaks the rules in a way that could be misread", proxy: "http_protocol_error",
	},
	upstream.Files: {
		Reason: "files", Status: 503, Title: "out of files or ports",
		Detail: "raise the open-file limit of abide (ulimit -n)", proxy: "proxy_internal_error", Retry: time.Second,
	},
	upstream.Hop: {
		Reason: "next_hop", Status: 502, Title: "the next proxy refused or failed",
		Detail: "look at egress.proxy, its name and password, and what that proxy says", proxy: "connection_refused", Retry: 5 * time.Second,
	},
	upstream.HopLogin: {
		Reason: "next_hop", Status: 502, Title: "the next proxy does not accept abide's user and password",
		Detail: "correct them in egress.proxy and reload; abide tries them rarely until then, because they could be locked", proxy: "connection_refused",
	},
	upstream.Canceled: {
		Reason: "canceled", Status: 499, Title: "the client left",
		Detail: "nobody reads this",
	},
}

// LoginRefused says that the next hop does not accept the login, for the log and the status.
func LoginRefused(until, now time.Time) string {
	a := ofUpstream[upstream.HopLogin]
	pause := ""
	if until.After(now) {
		pause = ": nothing is sent through it" + status.Until(until, now)
	}
	return a.Title + " (407)" + pause + "; " + a.Detail
}

// Of is the problem for a kind of failure of an upstream.
func Of(kind upstream.Kind) *Problem { return ofUpstream[kind] }

// OfUpstream is the problem for an upstream's error.
func OfUpstream(err error) *Problem {
	kind, failure := upstream.KindOf(err), upstream.TLSFailureOf(err)
	switch {
	case kind == upstream.TLS && failure == nil:
		return ofTLSFailure(&upstream.TLSFailure{})
	case kind == upstream.TLS:
		return ofTLSFailure(failure)
	case failure != nil:
		return hopTLS(failure)
	case kind == upstream.HopLogin:
		var e *upstream.Error
		errors.As(err, &e)
		return ofUpstream[kind].Until("", e.Until, time.Now())
	}
	if a := ofUpstream[kind]; a != nil {
		return a
	}
	return ofUpstream[upstream.Unknown]
}

// ofTLS are the answers for a site with which TLS failed. The detail of some
// is continued by ofTLSFailure with what the certificate says. Without an error type of
// Proxy-Status it is tls_certificate_error.
var ofTLS = map[upstream.TLSFault]Problem{
	upstream.TLSOther: {
		Title: "TLS with the site failed", Detail: "the handshake broke off for a reason that abide does not know; the log at level debug has it",
		proxy: "tls_protocol_error",
	},
	upstream.TLSExpired: {
		Title: "the site's certificate has expired", Detail: "the site has to renew it",
	},
	upstream.TLSNotYetValid: {
		Title: "the site's certificate is not valid yet", Detail: "look at the clock of the machine that abide runs on",
	},
	upstream.TLSName: {
		Title: "the site's certificate is for another name", Detail: "look at the host of the URL",
	},
	upstream.TLSIssuer: {
		Title:  "the issuer of the site's certificate is not trusted",
		Detail: "the site may not send its intermediate certificates; for a private authority name its certificate in egress.roots",
	},
	upstream.TLSSelfSigned: {
		Title: "the site's certificate is self-signed", Detail: "name it in egress.roots to trust it",
	},
	upstream.TLSUnusable: {
		Title: "the site's certificate is not fit for a site", Detail: "it cannot be read, or it or one of its issuers may not be used for this",
	},
	upstream.TLSNoRoots: {
		Title:  "abide's machine has no certificates to trust",
		Detail: "install them on the machine that abide runs on (on Debian: ca-certificates), or name a PEM file with them in egress.roots",
	},
	upstream.TLSVersion: {
		Title: "the site has no version of TLS or cipher in common with abide", Detail: "abide speaks TLS 1.2 and 1.3; the site's TLS is too old, or the site does not know this host",
		proxy: "tls_protocol_error",
	},
	upstream.TLSNotTLS: {
		Title: "the site does not speak TLS on this port", Detail: "use http://, or another port",
		proxy: "tls_protocol_error",
	},
	upstream.TLSClient: {
		Title: "the site wants a certificate of the client", Detail: "abide has none to show; the client can show its own where its https passes unread (intercept)",
		proxy: "tls_alert_received",
	},
	upstream.TLSAlert: {
		Title: "the site refused TLS with an alert", Detail: "it may not know this host",
		proxy: "tls_alert_received",
	},
	upstream.TLSCut: {
		Title: "the site closed the connection in the middle of the TLS handshake", Detail: "something on the way may block the host, or the site may be overloaded",
		proxy: "connection_terminated",
	},
}

// hopTLS is the answer for a next hop with which TLS failed. The names in the hop's
// certificate are not for clients.
func hopTLS(f *upstream.TLSFailure) *Problem {
	a := *ofUpstream[upstream.Hop]
	a.Title = "TLS with the next proxy failed"
	a.Detail = strings.ReplaceAll(ofTLS[f.Fault].Title, "the site", "the next proxy") + "; look at egress.proxy and egress.roots"
	return &a
}

// ofTLSFailure says why TLS with a site failed, as its certificate has it.
func ofTLSFailure(f *upstream.TLSFailure) *Problem {
	a := ofTLS[f.Fault]
	a.Reason, a.Status, a.proxy = f.Fault.String(), 502, cmp.Or(a.proxy, "tls_certificate_error")
	switch f.Fault {
	case upstream.TLSExpired:
		a.Detail = "it ended at " + utcMinute(f.At) + "; " + a.Detail
	case upstream.TLSNotYetValid:
		a.Detail = "it begins at " + utcMinute(f.At) + "; " + a.Detail
	case upstream.TLSName:
		a.Detail = "it is for " + namesIn(f) + "; " + a.Detail
	}
	return &a
}

func utcMinute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

func namesIn(f *upstream.TLSFailure) string {
	switch {
	case len(f.Names) == 0:
		return "no public name"
	case f.More > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(f.Names, ", "), f.More)
	}
	return strings.Join(f.Names, ", ")
}
