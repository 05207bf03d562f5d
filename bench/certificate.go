package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// authority is a CA made for one run. Origin and goproxy have one each, so
// that a client that believes only one of them proves who answered it.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	CertFile    string
	KeyFile     string
}

func newAuthority(dir, name string) (*authority, error) {
	a := &authority{}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bench " + name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	err := a.sign(template, dir, name, nil)
	return a, err
}

// issue signs a server's certificate for the given names and addresses.
func (a *authority) issue(dir, name string, names ...string) (*authority, error) {
	leaf := &authority{}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, one := range names {
		if ip := net.ParseIP(one); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, one)
		}
	}
	err := leaf.sign(template, dir, name, a)
	return leaf, err
}

// sign completes the template, signs it by itself or by parent, and writes
// certificate and key to dir.
func (a *authority) sign(template *x509.Certificate, dir, name string, parent *authority) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	by, byKey := template, key
	if parent != nil {
		by, byKey = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), byKey)
	if err != nil {
		return fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	a.key = key
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("writing the key of %s: %w", name, err)
	}
	a.CertFile, a.KeyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(a.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(a.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// certificates is the store that goproxy's documentation recommends: each
// name is signed once.
type certificates struct {
	mu sync.Mutex
	of map[string]*tls.Certificate
}

// Fetch implements goproxy.CertStorage.
func (c *certificates) Fetch(host string, sign func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.of[host]; kept != nil {
		return kept, nil
	}
	made, err := sign()
	if err == nil {
		c.of[host] = made
	}
	return made, err
}
