package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/status"
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
	HopLogin            // the next-hop proxy does not accept the user and password: see Login
	Canceled            // the caller's context ended
	Upload              // reading the caller's request body failed: see requestBodyError
	invalid             // the request cannot be written as valid HTTP
	Budget              // a byte limit paused the connection for too long: see ByteLimiter
)

var kindNames = [...]string{
	"unknown", "resolve", "refused", "unreachable", "connect-timeout", "forbidden", "self", "tls",
	"answer-timeout", "stalled", "closed", "protocol", "files", "next-hop", "next-hop-login", "canceled",
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
	// Refused tells that the origin ended the request because there are too many, without a time.
	Refused bool
	// TLS describes a failed handshake, with the origin for Kind TLS and with the next hop
	// for Kind Hop. It is nil for other failures.
	TLS *TLSFailure
	// Until is the end of the pause for Kind HopLogin, zero if there is none.
	Until time.Time
	Err   error
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

// failure makes an *Error of an error of a connection, for a caller with ctx. waiting is the Kind of a
// timeout at this point. An error that tells nothing more has the Kind Closed.
func failure(ctx context.Context, waiting Kind, err error) *Error {
	e := Error{Kind: Closed, Err: err}
	var ours *Error
	var timeout net.Error
	var bad malformedAnswer
	var body *requestBodyError
	switch {
	case ctx.Err() != nil:
		e.Kind, e.Err = Canceled, ctx.Err()
	case errors.As(err, &ours):
		e = *ours // a copy: several requests may have it
	case errors.As(err, &body):
		e.Kind = Upload
	case errors.As(err, &bad):
		e.Kind = Protocol
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = waiting
	}
	return &e
}

// ClosedBySite tells whether the origin closed or reset a connection to which it had not answered.
func ClosedBySite(err error) bool {
	tls := TLSFailureOf(err)
	return KindOf(err) == Closed || tls != nil && tls.Fault == TLSCut
}

// TLSFault classifies why TLS with an origin failed. If you add a fault, also change
// tlsFaultNames, and ofTLS in package problem.
type TLSFault uint8

// The faults.
const (
	TLSOther       TLSFault = iota // none of the faults below
	TLSExpired                     // a certificate of the chain has expired
	TLSNotYetValid                 // a certificate of the chain is not valid yet
	TLSName                        // the certificate is for other names
	TLSIssuer                      // the issuer of the certificate is not trusted
	TLSSelfSigned                  // the certificate is self-signed and not trusted
	TLSUnusable                    // the certificate has the wrong usage, or cannot be parsed
	TLSNoRoots                     // this machine has no trusted root certificates
	TLSVersion                     // no TLS version or cipher in common
	TLSNotTLS                      // the origin's answer is not TLS
	TLSClient                      // the origin requires a client certificate
	TLSAlert                       // the origin ended the handshake with another alert
	TLSCut                         // the connection ended during the handshake
)

var tlsFaultNames = [...]string{
	"tls", "tls_expired", "tls_not_yet_valid", "tls_name", "tls_issuer", "tls_self_signed", "tls_unfit", "tls_no_roots",
	"tls_version", "tls_not_tls", "tls_client_certificate", "tls_alert", "tls_cut",
}

func (f TLSFault) String() string { return tlsFaultNames[f] }

// TLSFailure describes a failed handshake. Its texts come from the origin: they are cut and
// made printable, but not trustworthy.
type TLSFailure struct {
	Fault  TLSFault
	Names  []string  // TLSName: some names of the certificate, without internal addresses
	More   int       // TLSName: number of further names
	Issuer string    // TLSIssuer, TLSSelfSigned: issuer of the certificate
	At     time.Time // TLSExpired: end of validity; TLSNotYetValid: begin of validity
}

const (
	maxCertificateNames = 5
	maxCertificateText  = 100 // in characters, of one name
)

// tlsFailureOf makes a TLSFailure of the error of a client-side handshake. asked tells
// whether the server has requested a client certificate.
func tlsFailureOf(err error, asked bool, now time.Time) *TLSFailure {
	var (
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		noRoots x509.SystemRootsError
		checked *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	alert := alertOf(err)
	switch {
	case errors.As(err, &noRoots):
		return &TLSFailure{Fault: TLSNoRoots}
	case errors.As(err, &name):
		return wrongName(name.Certificate)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if now.Before(invalid.Cert.NotBefore) {
			return &TLSFailure{Fault: TLSNotYetValid, At: invalid.Cert.NotBefore}
		}
		return &TLSFailure{Fault: TLSExpired, At: invalid.Cert.NotAfter}
	case errors.As(err, &unknown):
		return unknownIssuer(unknown.Cert)
	case errors.As(err, &checked), errors.As(err, &invalid):
		return &TLSFailure{Fault: TLSUnusable}
	case errors.As(err, &record):
		return &TLSFailure{Fault: TLSNotTLS}
	case alert != "" && asked:
		return &TLSFailure{Fault: TLSClient}
	case alert != "":
		return &TLSFailure{Fault: faultOfAlert(alert)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), slices.ContainsFunc(errsReset, func(reset error) bool { return errors.Is(err, reset) }):
		return &TLSFailure{Fault: TLSCut}
	}
	// crypto/tls reports faults that it finds itself as text only.
	for _, one := range localFaults {
		if strings.Contains(err.Error(), one.text) {
			return &TLSFailure{Fault: one.fault}
		}
	}
	return &TLSFailure{Fault: TLSOther}
}

var localFaults = []struct {
	text  string
	fault TLSFault
}{
	{"server selected unsupported protocol version", TLSVersion},
	{"server chose an unconfigured cipher suite", TLSVersion},
	{"server selected unsupported curve", TLSVersion},
	{"failed to parse certificate from server", TLSUnusable},
	{"server sent certificate containing RSA key larger", TLSUnusable},
	{"unsupported type of public key", TLSUnusable},
}

// alertOf is the text of the alert with which the peer ended TLS; "" if there was none.
func alertOf(err error) string {
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && remote.Err != nil {
		return remote.Err.Error()
	}
	return ""
}

// alertFaults maps alerts of an origin to faults (RFC 8446, section 6.2).
var alertFaults = map[tls.AlertError]TLSFault{
	40:  TLSVersion, // handshake_failure: most servers send it if nothing is in common
	70:  TLSVersion, // protocol_version
	71:  TLSVersion, // insufficient_security
	42:  TLSClient,  // bad_certificate
	46:  TLSClient,  // certificate_unknown
	48:  TLSClient,  // unknown_ca
	116: TLSClient,  // certificate_required
}

// faultOfAlert maps the text of an alert to a fault. crypto/tls does not export the type of
// these errors; their text equals that of tls.AlertError.
func faultOfAlert(text string) TLSFault {
	for alert, fault := range alertFaults {
		if text == alert.Error() {
			return fault
		}
	}
	return TLSAlert
}

func wrongName(cert *x509.Certificate) *TLSFailure {
	f := &TLSFailure{Fault: TLSName}
	add := func(name string) {
		if len(f.Names) == maxCertificateNames {
			f.More++
			return
		}
		f.Names = append(f.Names, cleanText(name))
	}
	for _, one := range cert.DNSNames {
		add(one)
	}
	for _, one := range cert.IPAddresses {
		// Internal addresses of the origin are not shown to the client.
		if one.IsGlobalUnicast() && !one.IsPrivate() {
			add(one.String())
		}
	}
	return f
}

func unknownIssuer(cert *x509.Certificate) *TLSFailure {
	f := &TLSFailure{Fault: TLSIssuer}
	if cert == nil {
		return f
	}
	if bytes.Equal(cert.RawIssuer, cert.RawSubject) {
		f.Fault = TLSSelfSigned
	}
	f.Issuer = cert.Issuer.CommonName
	if f.Issuer == "" && len(cert.Issuer.Organization) > 0 {
		f.Issuer = cert.Issuer.Organization[0]
	}
	f.Issuer = cleanText(f.Issuer)
	return f
}

// cleanText cuts a text of a certificate and makes it one printable line.
func cleanText(text string) string { return shorten.To(maxCertificateText, status.Clean(text)) }

// TLSFailureOf is the failed handshake that an error of this package describes, or nil.
func TLSFailureOf(err error) *TLSFailure {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.TLS
	}
	return nil
}
