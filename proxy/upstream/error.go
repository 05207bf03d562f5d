package upstream

import (
	"context"
	"errors"
)

// Kind classifies why an origin could not be reached or did not answer. The proxy maps it
// to a status and a fixed sentence. The wrapped error is for debug logs only: it may
// contain resolvers and internal addresses. If you add a Kind, also add its name to
// kindNames.
type Kind uint8

const (
	Unknown        Kind = iota
	Resolve             // the name has no address, or the resolver failed
	Refused             // the origin's machine answered that no process listens on the port
	Unreachable         // no route, host down
	ConnectTimeout      // no connection in time
	Forbidden           // the address may not be dialed by policy
	Self                // the address is a listener of this process
	TLS                 // handshake or certificate
	AnswerTimeout       // no response head in time
	Stalled             // a body made no progress for too long
	Closed              // the origin closed or reset the connection before it answered
	Protocol            // the answer is not valid or not safe HTTP
	Files               // this process is out of file descriptors or ports
	Hop                 // the next-hop proxy refused or failed
	Canceled            // the caller's context ended
	Upload              // reading the caller's request body failed: see requestBodyError
	invalid             // the request cannot be written as valid HTTP
	Budget              // a byte limit paused the connection for too long: see byteLimiter
)

var kindNames = [...]string{
	"unknown", "resolve", "refused", "unreachable", "connect-timeout", "forbidden", "self", "tls",
	"answer-timeout", "stalled", "closed", "protocol", "files", "next-hop", "canceled",
	"upload", "invalid", "budget",
}

func (k Kind) String() string { return kindNames[k] }

// Error is the type of all errors of this package.
type Error struct {
	Kind Kind
	// Sent tells whether any byte of the request may have reached the origin. A request
	// with Sent == false may be sent again, whatever its method.
	Sent bool
	// Stale tells that a reused connection ended before any byte of the answer: most likely
	// the origin was closing it already. If Sent is true, a caller may retry an idempotent
	// request at once. If Sent is false, the Transport has retried already where the body
	// allowed it.
	Stale bool
	// TLS describes a failed handshake, with the origin for Kind TLS and with the next hop
	// for Kind Hop. It is nil for other failures.
	TLS *TLSFailure
	Err error
}

// Error omits the wrapped error on purpose: see Kind.
func (e *Error) Error() string { return "upstream: " + e.Kind.String() }

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of any error of this package.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled):
		return Canceled
	default:
		return Unknown
	}
}
