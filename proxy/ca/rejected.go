package ca

import (
	"crypto/tls"
	"errors"
	"net"
)

// rejectionAlerts are the alerts (RFC 8446, section 6.2) of clients that do not accept a
// certificate: OpenSSL and GnuTLS send unknown_ca, Go bad_certificate, Java
// certificate_unknown.
var rejectionAlerts = []tls.AlertError{
	42, // bad_certificate
	43, // unsupported_certificate
	44, // certificate_revoked
	45, // certificate_expired
	46, // certificate_unknown
	48, // unknown_ca
}

// damagedRecord is the error of a server that expects encryption and gets a plain-text
// alert: OpenSSL's client sends such an alert in TLS 1.3 before it changes its keys. Other
// causes are a broken client or an attack.
const damagedRecord tls.AlertError = 20

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
		for _, alert := range rejectionAlerts {
			if text == alert.Error() {
				return true
			}
		}
	}
	return false
}
