package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

const (
	// rootLife is long because installing a root is manual work.
	rootLife = 10 * 365 * 24 * time.Hour
	// rootMargin is the remaining life of a root at which it is renewed: the lifetime of a leaf
	// signed the day before.
	rootMargin = leafLife
	// backdating allows clients whose clocks are behind.
	backdating = 24 * time.Hour
	// leafLife plus backdating is far below the 397 days that strict clients accept.
	leafLife = 90 * 24 * time.Hour
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
	template := &x509.Certificate{
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
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(r.cert.Raw)), " ", ":")
}

// permits tells whether the name constraints of every certificate of the chain allow a
// name, or an address if that is valid (RFC 5280, section 4.2.1.10).
func (r *root) permits(name string, addr netip.Addr) bool {
	for _, cert := range r.chain {
		permitted := allowed(cert.ExcludedDNSDomains, cert.PermittedDNSDomains, func(constraint string) bool { return withinDomain(name, constraint) })
		if addr.IsValid() {
			permitted = allowed(cert.ExcludedIPRanges, cert.PermittedIPRanges, func(network *net.IPNet) bool { return network.Contains(addr.AsSlice()) })
		}
		if !permitted {
			return false
		}
	}
	return true
}

// allowed tells whether nothing that is excluded matches, and something that is permitted, if anything is named there.
func allowed[T any](excluded, permitted []T, matches func(T) bool) bool {
	return !slices.ContainsFunc(excluded, matches) && (len(permitted) == 0 || slices.ContainsFunc(permitted, matches))
}

// withinDomain tells whether a name is the domain of a constraint or below it.
// With a dot at its start a constraint is for what is below it alone, and without
// a text it is for every name.
func withinDomain(name, constraint string) bool {
	constraint = strings.ToLower(constraint)
	if constraint == "" || name == constraint {
		return true
	}
	if !strings.HasPrefix(constraint, ".") {
		constraint = "." + constraint
	}
	return strings.HasSuffix(name, constraint)
}

// constraintsText lists the names and networks that the constraints of the operator's
// certificates permit and exclude.
func (r *root) constraintsText() []string {
	var text []string
	for _, one := range r.chain {
		text = append(text, one.PermittedDNSDomains...)
		text = append(text, lists.Map(one.PermittedIPRanges, (*net.IPNet).String)...)
		excluded := slices.Concat(one.ExcludedDNSDomains, lists.Map(one.ExcludedIPRanges, (*net.IPNet).String))
		text = append(text, lists.Map(excluded, func(name string) string { return "not " + name })...)
	}
	return text
}

// issuers are the certificates that a server sends after a leaf: those of the chain except
// the root.
func (r *root) issuers() [][]byte {
	var out [][]byte
	for _, one := range r.chain {
		if !bytes.Equal(one.RawSubject, one.RawIssuer) {
			out = append(out, one.Raw)
		}
	}
	return out
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
