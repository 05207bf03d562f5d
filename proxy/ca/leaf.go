package ca

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/shorten"
)

const (
	// leafMargin is the remaining life of a leaf at which it is signed anew.
	leafMargin = 30 * 24 * time.Hour
	// maxCommonName is the longest common name that X.520 allows.
	maxCommonName = 64
)

// leaf is the certificate of one name, with its TLS configuration.
type leaf struct {
	config *tls.Config
	renew  time.Time
}

// TLSConfig is the server configuration for host, whatever server name the client sends.
// The certificate is signed at the first request for a name and cached. The configuration
// is shared: callers must not change it.
func (c *CA) TLSConfig(host string) (*tls.Config, error) {
	if config := c.fresh(host); config != nil {
		return config, nil
	}
	name, addr, err := parseHost(host)
	if err != nil {
		return nil, err
	}
	made, err, _ := c.signings.Do(name, func() (any, error) {
		// Whoever came after the last flight had landed finds its leaf.
		if config := c.fresh(name); config != nil {
			return config, nil
		}
		l, err := c.sign(name, addr)
		if err != nil {
			return nil, err
		}
		c.leaves.Add(name, l)
		return l.config, nil
	})
	config, _ := made.(*tls.Config)
	return config, err
}

// fresh is the configuration of a name whose leaf need not be signed, nil for none.
func (c *CA) fresh(name string) *tls.Config {
	if l, known := c.leaves.Get(name); known && c.options.Now().Before(l.renew) {
		return l.config
	}
	return nil
}

// sign makes the leaf of a name. Waiting for a slot needs no context: it lasts as long as
// the signings before it, each a fraction of a millisecond.
func (c *CA) sign(name string, addr netip.Addr) (*leaf, error) {
	c.signing <- struct{}{}
	defer func() { <-c.signing }()

	root, now := c.root.Load(), c.options.Now()
	if c.isGiven() && !root.permits(name, addr) {
		return nil, fmt.Errorf("ca.cert may not vouch for %s: its name constraints are for %s", shorten.To(81, name), strings.Join(root.constraintsText(), ", "))
	}
	ends := now.Add(leafLife)
	if ends.After(root.cert.NotAfter) {
		ends = root.cert.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"abide"}},
		NotBefore:             now.Add(-backdating),
		NotAfter:              ends,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		SubjectKeyId:          c.leafKeyID,
	}
	if addr.IsValid() {
		// No common name: openssl takes an address there for a name, and finds
		// it outside the constraints.
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else if template.DNSNames = []string{name}; len(name) <= maxCommonName {
		template.Subject.CommonName = name
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root.cert, &c.leafKey.PublicKey, root.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %s: %w", name, err)
	}
	c.options.OnSign()
	// The parsed form is left out: a server with one certificate never looks at
	// it, and it is larger than the certificate itself.
	certificate := &tls.Certificate{Certificate: append([][]byte{der}, root.issuers()...), PrivateKey: c.leafKey}
	return &leaf{config: c.config(certificate), renew: renewal(now, ends)}, nil
}

// renewal returns the time at which a leaf with that end is signed again. If the root ends
// soon, leaves are short but still not signed for every connection.
func renewal(now, ends time.Time) time.Time {
	if left := ends.Sub(now); left < 2*leafMargin {
		return now.Add(left / 2)
	}
	return ends.Add(-leafMargin)
}

// config serves one certificate. Session tickets have one key for the process, so that
// sessions survive the renewal of a configuration.
func (c *CA) config(certificate *tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates:  []tls.Certificate{*certificate},
		MinVersion:    tls.VersionTLS12,
		NextProtos:    []string{"h2", "http/1.1", "http/1.0"},
		WrapSession:   c.tickets.EncryptTicket,
		UnwrapSession: c.tickets.DecryptTicket,
	}
}

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
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Err == nil {
		return false
	}
	// crypto/tls keeps the type of these errors to itself; their text is that of
	// the exported one.
	text := op.Err.Error()
	switch op.Op {
	case "local error":
		return text == damagedRecord.Error()
	case "remote error":
		return slices.ContainsFunc(rejectionAlerts, func(alert tls.AlertError) bool { return text == alert.Error() })
	}
	return false
}
