package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// rootLife is long because installing a root is manual work.
	rootLife = 10 * 365 * 24 * time.Hour
	// rootMargin is the remaining life of a root at which it is renewed: the lifetime of a leaf
	// signed the day before.
	rootMargin = leafLife
	// backdating allows clients whose clocks are behind.
	backdating = 24 * time.Hour
)

// root is a certificate that signs leaves. It is immutable.
type root struct {
	cert  *x509.Certificate
	key   crypto.Signer
	chain []*x509.Certificate // cert, and its issuers if the operator configured them
	pem   []byte              // of the chain
	names constraints
}

func newRoot(key *ecdsa.PrivateKey, names constraints, now time.Time) (*root, error) {
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The key's digest distinguishes the roots of several machines, without identifying
		// the machine.
		Subject:               pkix.Name{Organization: []string{"abide"}, CommonName: "abide CA " + hex.EncodeToString(id[:4])},
		NotBefore:             now.Add(-backdating),
		NotAfter:              now.Add(rootLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		SubjectKeyId:          id,
		AuthorityKeyId:        id,
	}
	names.constrain(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA certificate: %w", err)
	}
	return readRoot(der, key)
}

// readRoot checks that the certificate is one that abide made with this key.
func readRoot(der []byte, key *ecdsa.PrivateKey) (*root, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("not a certificate: %w", err)
	}
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !public.Equal(&key.PublicKey):
		return nil, errors.New("the certificate belongs to another key")
	case !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("the certificate is not a CA's")
	case !bytes.Equal(cert.RawSubject, cert.RawIssuer):
		return nil, errors.New("the certificate is not self-signed")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, fmt.Errorf("the certificate's signature is wrong: %w", err)
	}
	return &root{
		cert:  cert,
		key:   key,
		chain: []*x509.Certificate{cert},
		pem:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		names: permitted(cert),
	}, nil
}

// isSufficient tells that the root covers names and does not end soon.
func (r *root) isSufficient(names constraints, now time.Time) bool {
	return r.names.covers(names) && !now.After(r.cert.NotAfter.Add(-rootMargin))
}

func (r *root) fingerprint() string {
	sum := sha256.Sum256(r.cert.Raw)
	var b strings.Builder
	for i, one := range sum {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02X", one)
	}
	return b.String()
}

// keyID names a key: the leftmost 160 bits of a SHA-256 (RFC 7093).
func keyID(key *ecdsa.PublicKey) ([]byte, error) {
	point, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("naming a key: %w", err)
	}
	sum := sha256.Sum256(point)
	return sum[:20], nil
}

// newSerial is 128 random bits, never zero.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

const (
	// leafLife plus backdating is far below the 397 days that strict clients accept.
	leafLife = 90 * 24 * time.Hour
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
	l, err := c.leaf(host)
	if err != nil {
		return nil, err
	}
	return l.config, nil
}

func (c *CA) leaf(host string) (*leaf, error) {
	if l, ok := c.fresh(host); ok {
		return l, nil
	}
	name, addr, err := parseHost(host)
	if err != nil {
		return nil, err
	}
	made, err, _ := c.signings.Do(name, func() (any, error) {
		// Whoever came after the last flight had landed finds its leaf.
		if l, ok := c.fresh(name); ok {
			return l, nil
		}
		l, err := c.sign(name, addr)
		if err != nil {
			return nil, err
		}
		c.leaves.Add(name, l)
		return l, nil
	})
	if err != nil {
		return nil, err
	}
	return made.(*leaf), nil
}

func (c *CA) fresh(name string) (*leaf, bool) {
	l, ok := c.leaves.Get(name)
	if !ok || !c.options.Now().Before(l.renew) {
		return nil, false
	}
	return l, true
}

// sign makes the leaf of a name. Waiting for a slot needs no context: it lasts as long as
// the signings before it, each a fraction of a millisecond.
func (c *CA) sign(name string, addr netip.Addr) (*leaf, error) {
	c.signing <- struct{}{}
	defer func() { <-c.signing }()

	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	root, now := c.root.Load(), c.options.Now()
	if c.isGiven() && !root.permits(name, addr) {
		return nil, fmt.Errorf("ca.cert may not vouch for %s: its name constraints are for %s", shortened(name), strings.Join(root.constraintsText(), ", "))
	}
	ends := now.Add(leafLife)
	if ends.After(root.cert.NotAfter) {
		ends = root.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"abide"}},
		NotBefore:             now.Add(-backdating),
		NotAfter:              ends,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		SubjectKeyId:          c.leafKeyID,
	}
	switch {
	case addr.IsValid():
		// No common name: openssl takes an address there for a name, and finds
		// it outside the constraints.
		template.IPAddresses = []net.IP{addr.AsSlice()}
	case len(name) <= maxCommonName:
		template.Subject.CommonName = name
		template.DNSNames = []string{name}
	default:
		template.DNSNames = []string{name}
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
