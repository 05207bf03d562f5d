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
	"math/big"
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
