package ca

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/disk"
)

const (
	// givenMargin is the remaining life of the operator's certificate below which a start warns.
	givenMargin = 30 * 24 * time.Hour
	// maxListed bounds how many names a message lists.
	maxListed = 5
)

// GivenDir is the directory, within a policy's data directory, of client files for the
// operator's own CA. It is not Dir, whose ca.pem belongs to the key there. It is "" if
// nothing is saved.
func GivenDir(data string) string {
	if Dir(data) == "" {
		return ""
	}
	return filepath.Join(data, "ca-given")
}

// openGiven reads the certificate and the key that the operator names in
// Options.Cert and Options.Key. They are read here, and never written.
func (c *CA) openGiven(wanted constraints) error {
	chain, err := readChain(c.options.Cert)
	if err != nil {
		return fmt.Errorf("ca.cert: %w", err)
	}
	key, shared, err := readGivenKey(c.options.Key)
	if err != nil {
		return fmt.Errorf("ca.key: %w", err)
	}
	now := c.options.Now()
	if err := checkGiven(chain, key, now); err != nil {
		return fmt.Errorf("ca.cert: %s %w", c.options.Cert, err)
	}
	ours := &root{cert: chain[0], key: key, chain: chain, pem: encodeCertificates(chain)}
	ours.names.any = len(ours.constraintsText()) == 0
	c.root.Store(ours)
	if shared {
		c.options.Notice(fmt.Sprintf("ca.key: %s can be read by every user of this machine, who could then impersonate every host: chmod 600 it (in Kubernetes, defaultMode: 0400 of the volume)", c.options.Key))
	}
	if ends := chain[0].NotAfter; now.After(ends.Add(-givenMargin)) {
		c.options.Notice(fmt.Sprintf("ca.cert: %s ends at %s; abide does not renew it: put another one there and restart", c.options.Cert, ends.UTC().Format("2006-01-02 15:04 UTC")))
	}
	c.noticeUncovered(wanted)
	return nil
}

// isGiven tells whether the operator configured the certificate.
func (c *CA) isGiven() bool { return c.options.Cert != "" }

// readChain reads a certificate and those of its issuers that follow it.
func readChain(path string) ([]*x509.Certificate, error) {
	text, err := readRegular(path, maxFile)
	var chain []*x509.Certificate
	if err == nil {
		chain, err = parseCertificates(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	return chain, nil
}

// readGivenKey reads an ECDSA or RSA key. shared tells whether every user of this
// machine can read it too.
func readGivenKey(path string) (key crypto.Signer, shared bool, err error) {
	text, mode, err := disk.Read(path, maxFile)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	key, err = parseGivenKey(text)
	if err != nil {
		return nil, false, fmt.Errorf("%s %w", path, err)
	}
	return key, may(mode, 0o004), nil
}

// checkGiven tells why the first certificate of chain cannot sign leaf certificates with
// key. Its errors follow the name of the file.
func checkGiven(chain []*x509.Certificate, key crypto.Signer, now time.Time) error {
	certificate := chain[0]
	public, ok := certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !public.Equal(key.Public()):
		return errors.New("belongs to another key than ca.key")
	case !certificate.BasicConstraintsValid || !certificate.IsCA:
		return errors.New("is not the certificate of a CA (its basic constraints do not say CA:TRUE)")
	case certificate.KeyUsage != 0 && certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("may not sign certificates (its key usage lacks keyCertSign)")
	case len(certificate.ExtKeyUsage)+len(certificate.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("may not sign certificates of servers (its extended key usage lacks serverAuth)")
	}
	for i, one := range chain {
		switch {
		case now.After(one.NotAfter):
			return fmt.Errorf("has expired: %s was good until %s", one.Subject, one.NotAfter.UTC().Format("2006-01-02 15:04 UTC"))
		case now.Before(one.NotBefore):
			return fmt.Errorf("is not valid yet: %s is good from %s on; check the clock of this machine", one.Subject, one.NotBefore.UTC().Format("2006-01-02 15:04 UTC"))
		}
		if i == 0 {
			continue
		}
		if err := chain[i-1].CheckSignatureFrom(one); err != nil {
			return fmt.Errorf("has a certificate of %s that did not issue the one before it: put each issuer after what it issued, and nothing else", one.Subject)
		}
	}
	return nil
}

// Vouches tells whether the CA may certify a host. A CA made by abide may: it is renewed
// for intercepted hosts. The operator's CA may have name constraints.
func (c *CA) Vouches(host string) bool {
	if !c.isGiven() {
		return true
	}
	name, addr, err := parseHost(host)
	return err == nil && c.root.Load().permits(name, addr)
}

// noticeUncovered reports the configured hosts that cannot be intercepted.
func (c *CA) noticeUncovered(wanted constraints) {
	out := slices.DeleteFunc(wanted.list(), func(host string) bool {
		name, addr, err := parseHost(host)
		return err != nil || c.root.Load().permits(name, addr)
	})
	if len(out) == 0 {
		return
	}
	more := ""
	if n := len(out) - maxListed; n > 0 {
		out, more = out[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	c.options.Notice(fmt.Sprintf("ca.cert may not vouch for %s%s (its name constraints are for %s), so their https passes unread, and their limits and tokens hold for plain http alone: give a certificate that permits them, or leave ca.cert out",
		strings.Join(out, ", "), more, strings.Join(c.root.Load().constraintsText(), ", ")))
}
