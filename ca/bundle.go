package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names of what WriteBundle writes.
const (
	rootName   = "ca.pem"
	bundleName = "bundle.pem"
	storeName  = "bundle.jks"
)

var errNoRoots = errors.New("this system has no root certificates: install them (on Debian: ca-certificates), or name a PEM file with them in SSL_CERT_FILE")

// Bundle is our root followed by the system's, in PEM, for clients whose setting
// replaces what they trust instead of adding to it.
func (c *CA) Bundle() ([]byte, error) {
	trusted, err := c.trusted()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, one := range trusted {
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: one.Raw}); err != nil {
			return nil, fmt.Errorf("encoding the bundle: %w", err)
		}
	}
	return b.Bytes(), nil
}

// JavaStore is what Bundle is, as a Java key store.
func (c *CA) JavaStore() ([]byte, error) {
	trusted, err := c.trusted()
	if err != nil {
		return nil, err
	}
	return javaStore(trusted, c.options.Now()), nil
}

// trusted is our root and then the system's, each once. Older certificates of
// our own key are left out: openssl stops at the first that has the right name,
// and would find a host outside the old one's constraints.
func (c *CA) trusted() ([]*x509.Certificate, error) {
	root := c.root.Load()
	own := root.cert
	text, err := systemRoots()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(root.chain)
	seen := map[string]bool{}
	for _, one := range all {
		seen[string(one.Raw)] = true
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue // what this process cannot read it cannot vouch for
		}
		if seen[string(cert.Raw)] || bytes.Equal(cert.RawSubjectPublicKeyInfo, own.RawSubjectPublicKeyInfo) {
			continue
		}
		seen[string(cert.Raw)] = true
		all = append(all, cert)
	}
	if len(all) == len(root.chain) {
		return nil, errNoRoots
	}
	return all, nil
}

// WriteBundle writes into dir what Env needs: ca.pem (our root), bundle.pem
// (Bundle) and bundle.jks (JavaStore). Each file is replaced as a whole, so
// clients that start meanwhile read the old or the new one.
func (c *CA) WriteBundle(dir string) (caFile, bundleFile string, err error) {
	trusted, err := c.Bundle()
	if err != nil {
		return "", "", err
	}
	store, err := c.JavaStore()
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("making the directory of the CA bundle: %w", err)
	}
	for name, data := range map[string][]byte{rootName: c.PEM(), bundleName: trusted, storeName: store} {
		path := filepath.Join(dir, name)
		if name == rootName && path == c.File() {
			continue // it is there, and another process may have renewed it
		}
		if err := replace(path, data, 0o644); err != nil {
			return "", "", fmt.Errorf("writing the CA bundle: %w", err)
		}
	}
	return filepath.Join(dir, rootName), filepath.Join(dir, bundleName), nil
}

// storeFile is where WriteBundle puts the Java key store beside a bundle.
func storeFile(bundleFile string) string {
	return strings.TrimSuffix(bundleFile, filepath.Ext(bundleFile)) + filepath.Ext(storeName)
}

// namedRoots are the roots that the environment names, as crypto/x509 and
// openssl read it: it beats the system's.
func namedRoots() ([]byte, error) {
	var text []byte
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		found, err := os.ReadFile(file)
		// A file that has gone may be a bundle of ours that is about to be
		// written again.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading SSL_CERT_FILE: %w", err)
		}
		text = found
	}
	for _, dir := range filepath.SplitList(os.Getenv("SSL_CERT_DIR")) {
		text = append(text, readDir(dir)...)
	}
	return text, nil
}

// readDir is every file of a directory, as far as they can be read, in one.
func readDir(dir string) []byte {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var text []byte
	for _, one := range entries {
		found, err := os.ReadFile(filepath.Join(dir, one.Name()))
		if err != nil {
			continue
		}
		text = append(append(text, '\n'), found...)
	}
	return text
}
