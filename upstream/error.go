package upstream

import (
	"context"
	"errors"
)

// Kind says in one word why an origin could not be asked or did not answer.
// The proxy turns it into a status and a fixed sentence; the wrapped error is
// for debug logs only, because it may name resolvers and inner addresses.
type Kind uint8

const (
	Unknown        Kind = iota
	Resolve             // the name has no address, or the resolver failed
	Refused             // the origin's machine answered that nobody listens
	Unreachable         // no route, host down
	ConnectTimeout      // no connection within the time for it
	Forbidden           // the address may not be dialed by policy
	Self                // the address is one of our own listeners
	TLS                 // handshake or certificate
	AnswerTimeout       // no response head within the time for it
	Stalled             // a body made no progress within the time for it
	Closed              // the origin closed or reset before it answered
	Protocol            // what came back is not HTTP, or not safe to believe
	Files               // out of file descriptors or ports here
	Hop                 // the next-hop proxy refused or failed
	Canceled            // the caller gave up
	Upload              // reading the caller's own request body failed: see RequestBodyError
	Invalid             // the request cannot be put on the wire as it is
	Budget              // a byte limit kept the connection still for longer than it may: see Limiter
)

var kindNames = [...]string{
	"unknown", "resolve", "refused", "unreachable", "connect-timeout", "forbidden", "self", "tls",
	"answer-timeout", "stalled", "closed", "protocol", "files", "next-hop", "canceled",
	"upload", "invalid", "budget",
}

func (k Kind) String() string { return kindNames[k] }

// Error is every failure of this package.
type Error struct {
	Kind Kind
	// Sent tells whether any byte of the request may have reached the origin.
	// A request with Sent == false may be sent again whatever its method.
	Sent bool
	// Stale tells that the connection had been used before and ended without a
	// word in answer to this request: most likely it was about to end anyway. With
	// Sent a caller may ask again at once, if twice does no harm; without it the
	// Transport has done that already, where the body allows it.
	Stale bool
	// TLS is what is known of a handshake that failed, of Kind TLS with the origin
	// and of Kind Hop with the next hop. It is nil for other failures.
	TLS *TLSFailure
	Err error
}

// Error leaves the wrapped error out on purpose: see Kind.
func (e *Error) Error() string { return "upstream: " + e.Kind.String() }

func (e *Error) Unwrap() error { return e.Err }

// KindOf classifies any error that came out of this package.
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
