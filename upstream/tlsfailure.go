package upstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// TLSFault is why TLS with an origin failed.
type TLSFault uint8

// If you add a fault, also change tlsFaultNames and tlsAnswers of the proxy.
const (
	TLSOther       TLSFault = iota // none of those below
	TLSExpired                     // a certificate of the chain has ended
	TLSNotYetValid                 // a certificate of the chain begins later
	TLSName                        // the certificate is for other names
	TLSIssuer                      // nobody that is trusted has issued the certificate
	TLSSelfSigned                  // the certificate has issued itself, and is not trusted
	TLSUnfit                       // the certificate may not be used for this, or cannot be read
	TLSNoRoots                     // this machine has no certificates to trust
	TLSVersion                     // no version of TLS or cipher in common
	TLSNotTLS                      // the origin answers something else than TLS
	TLSClient                      // the origin wants a certificate of the client
	TLSAlert                       // the origin ended the handshake with another alert
	TLSCut                         // the connection ended in the middle of the handshake
)

var tlsFaultNames = [...]string{
	"tls", "tls_expired", "tls_not_yet_valid", "tls_name", "tls_issuer", "tls_self_signed", "tls_unfit", "tls_no_roots",
	"tls_version", "tls_not_tls", "tls_client_certificate", "tls_alert", "tls_cut",
}

func (f TLSFault) String() string { return tlsFaultNames[f] }

// TLSFailure is what is known of a handshake that failed. Its texts were chosen by
// the origin: they are short and printable, and nothing else is sure of them.
type TLSFailure struct {
	Fault  TLSFault
	Names  []string  // TLSName: some of those that the certificate is for, without inner addresses
	More   int       // TLSName: how many there are besides
	Issuer string    // TLSIssuer, TLSSelfSigned: who has issued the certificate
	At     time.Time // TLSExpired: when it ended; TLSNotYetValid: when it begins
}

const (
	maxCertificateNames = 5
	maxCertificateText  = 100 // bytes of one name
)

// tlsFailureOf reads the error of a handshake on the side of a client.
// asked tells whether the server has asked for a certificate of the client.
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
		return &TLSFailure{Fault: TLSUnfit}
	case errors.As(err, &record):
		return &TLSFailure{Fault: TLSNotTLS}
	case alert != "" && asked:
		return &TLSFailure{Fault: TLSClient}
	case alert != "":
		return &TLSFailure{Fault: faultOfAlert(alert)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), slices.ContainsFunc(errsReset, func(reset error) bool { return errors.Is(err, reset) }):
		return &TLSFailure{Fault: TLSCut}
	}
	// crypto/tls has no types for what it finds wrong itself.
	for _, one := range ownFindings {
		if strings.Contains(err.Error(), one.text) {
			return &TLSFailure{Fault: one.fault}
		}
	}
	return &TLSFailure{Fault: TLSOther}
}

var ownFindings = []struct {
	text  string
	fault TLSFault
}{
	{"server selected unsupported protocol version", TLSVersion},
	{"server chose an unconfigured cipher suite", TLSVersion},
	{"server selected unsupported curve", TLSVersion},
	{"failed to parse certificate from server", TLSUnfit},
	{"server sent certificate containing RSA key larger", TLSUnfit},
	{"unsupported type of public key", TLSUnfit},
}

// alertOf is the text of the alert by which the peer ended TLS, "" if it did not.
func alertOf(err error) string {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" && remote.Err != nil {
		return remote.Err.Error()
	}
	return ""
}

// alertFaults are what the alerts of an origin mean (RFC 8446, section 6.2).
var alertFaults = map[tls.AlertError]TLSFault{
	40:  TLSVersion, // handshake_failure: of nothing in common, in most servers
	70:  TLSVersion, // protocol_version
	71:  TLSVersion, // insufficient_security
	42:  TLSClient,  // bad_certificate
	46:  TLSClient,  // certificate_unknown
	48:  TLSClient,  // unknown_ca
	116: TLSClient,  // certificate_required
}

// faultOfAlert is what an alert of the origin means. crypto/tls keeps the type of
// these errors to itself; their text is that of the exported one.
func faultOfAlert(text string) TLSFault {
	for alert, fault := range alertFaults {
		if text == alert.Error() {
			return fault
		}
	}
	return TLSAlert
}

// noteCertificateRequest has a configuration that is used for one handshake tell
// whether the server has asked for a certificate. It gets none, as without this.
func noteCertificateRequest(config *tls.Config) *bool {
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &tls.Certificate{}, nil
	}
	return &asked
}

// wantsCertificate is the failure of a request because the origin wanted a
// certificate, nil if it did not. In TLS 1.3 it says so after the handshake.
func wantsCertificate(err error) *TLSFailure {
	if alert := alertOf(err); alert != "" && faultOfAlert(alert) == TLSClient {
		return &TLSFailure{Fault: TLSClient}
	}
	return nil
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
		// An inner address of the origin's is none of the client's business.
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

// cleanText bounds a text of a certificate, and keeps it on one line.
func cleanText(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxCertificateText {
		text = strings.ToValidUTF8(text[:maxCertificateText], "") + "…"
	}
	return text
}

// TLSFailureOf is what an error of this package says of a handshake that failed,
// nil if that is not what happened.
func TLSFailureOf(err error) *TLSFailure {
	var e *Error
	if errors.As(err, &e) {
		return e.TLS
	}
	return nil
}
