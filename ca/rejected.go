package ca

import (
	"crypto/tls"
	"errors"
	"net"
)

// distrust are the alerts (RFC 8446, section 6.2) by which clients say that
// they do not accept a certificate: OpenSSL and GnuTLS say unknown_ca, Go
// bad_certificate, Java certificate_unknown.
var distrust = []tls.AlertError{
	42, // bad_certificate
	43, // unsupported_certificate
	44, // certificate_revoked
	45, // certificate_expired
	46, // certificate_unknown
	48, // unknown_ca
}

// damagedRecord is what a plain-text alert looks like to a server that expects an
// encrypted one: OpenSSL's client sends it so in TLS 1.3, because it has not
// changed its keys yet when it looks at the certificate. Nothing but a broken
// client or an attack on it damages a record otherwise, as TCP has checksums.
const damagedRecord tls.AlertError = 20 // bad_record_mac

// Rejected tells whether a TLS server's handshake failed because the client does
// not accept the certificate, which mostly means that it does not know the CA.
func Rejected(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Err == nil {
		return false
	}
	// crypto/tls keeps the type of these errors to itself; their text is that of
	// the exported one.
	text := op.Err.Error()
	switch op.Op {
	case "local error":
		return text == damagedRecord.Error()
	case "remote error":
		for _, alert := range distrust {
			if text == alert.Error() {
				return true
			}
		}
	}
	return false
}
