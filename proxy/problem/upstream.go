package problem

import (
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
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
	upstream.Canceled: {
		Reason: "canceled", Status: 499, Title: "the client left",
		Detail: "nobody reads this",
	},
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
	}
	if a := ofUpstream[kind]; a != nil {
		return a
	}
	return ofUpstream[upstream.Unknown]
}
