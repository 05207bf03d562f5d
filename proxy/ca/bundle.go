package ca

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

var errNoRoots = errors.New("this system has no root certificates: install them (on Debian: ca-certificates), or name a PEM file with them in SSL_CERT_FILE")

// Bundle returns all certificates that clients trust, in PEM: our root, the system's and the
// user's own. It is for clients with a setting that replaces their roots instead of adding to them.
func (c *CA) Bundle() ([]byte, error) {
	trusted, err := c.trusted("")
	return encodeCertificates(trusted.all), err
}

// JavaStore is the Bundle as a Java key store.
func (c *CA) JavaStore() ([]byte, error) {
	trusted, err := c.trusted("")
	if err != nil {
		return nil, err
	}
	return javaStore(trusted.all, c.options.Now()), nil
}

// javaStore is a key store of trusted certificates in Java's JKS format, which every
// version of Java reads. Java cannot be configured to read PEM.
func javaStore(trusted []*x509.Certificate, now time.Time) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.BigEndian, v) } // a Buffer takes everything
	text := func(s string) {
		put(uint16(len(s)))
		b.WriteString(s)
	}
	put(uint32(0xFEEDFEED))
	put(uint32(2)) // version
	put(uint32(len(trusted)))
	for i, one := range trusted {
		put(uint32(2)) // a trusted certificate, not a key
		alias := "abide"
		if i > 0 {
			alias = fmt.Sprintf("root-%d", i)
		}
		text(alias)
		put(now.UnixMilli())
		text("X.509")
		put(uint32(len(one.Raw)))
		b.Write(one.Raw)
	}
	digest := sha1.New()
	for _, unit := range utf16.Encode([]rune(storePassword)) {
		digest.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	digest.Write([]byte("Mighty Aphrodite")) // Java's salt
	digest.Write(b.Bytes())
	return digest.Sum(b.Bytes())
}

// trusted are the certificates that clients trust, our root first and each once.
type trusted struct {
	all   []*x509.Certificate // replaces what a client trusts by default
	extra []*x509.Certificate // in addition to the system's
	// What names files that cannot be used.
	warnings []string
}

// trusted collects our root, the system's roots and the user's own. dir is the directory to
// which the result will be written, "" if it will not.
//
// SSL_CERT_FILE replaces the system's file, and SSL_CERT_DIR its directory, as in OpenSSL
// and Go: both together exclude the system's roots.
func (c *CA) trusted(dir string) (trusted, error) {
	system, failed := systemRoots()
	users, warnings := readUserRoots(*c.roots.Load(), []string{c.dir, dir})
	// Unreadable system roots are not reported: the user cannot repair them.
	systems, _ := parseCertificates(system)
	inSystem := func(certificate *x509.Certificate) bool { return slices.ContainsFunc(systems, certificate.Equal) }
	t := trusted{extra: c.chainWith(slices.DeleteFunc(slices.Clone(users), inSystem)), warnings: warnings}
	if os.Getenv("SSL_CERT_FILE") != "" && os.Getenv("SSL_CERT_DIR") != "" {
		systems = nil
	}
	t.all = c.chainWith(append(systems, users...))
	if len(t.all) == len(c.chainWith(nil)) {
		return trusted{}, errors.Join(errNoRoots, failed)
	}
	return t, nil
}

// chainWith is our root, with its issuers if the operator configured it, followed by
// others, each once. Older certificates of our own key are left out: openssl stops at the
// first with the right name, and would reject hosts outside of its constraints.
func (c *CA) chainWith(others []*x509.Certificate) []*x509.Certificate {
	root := c.root.Load()
	all := slices.Clone(root.chain)
	seen := map[string]bool{} // raw certificate → it is in all
	for _, one := range all {
		seen[string(one.Raw)] = true
	}
	for _, one := range others {
		if seen[string(one.Raw)] || bytes.Equal(one.RawSubjectPublicKeyInfo, root.cert.RawSubjectPublicKeyInfo) {
			continue
		}
		seen[string(one.Raw)] = true
		all = append(all, one)
	}
	return all
}

// WriteBundle writes into dir the files that Env names: extra.pem (our root and the user's
// own), bundle.pem (Bundle), bundle.jks (JavaStore), and settings for wget and PHP. Each
// file is replaced atomically. Unusable files of the user are reported to Options.Notice.
// When the root is renewed, this process writes the files again.
func (c *CA) WriteBundle(dir string) (extraFile, bundleFile string, err error) {
	root := c.root.Load()
	trusted, err := c.trusted(dir)
	if err != nil {
		return "", "", err
	}
	for _, one := range trusted.warnings {
		c.options.Notice(one)
	}
	if err := os.MkdirAll(filepath.Join(dir, phpDir), 0o700); err != nil {
		return "", "", fmt.Errorf("making the directory of the CA bundle: %w", err)
	}
	bundleFile = filepath.Join(dir, bundleName)
	rc := userWgetrc([]string{c.dir, dir})
	if rc.err != nil && rc.path == os.Getenv("WGETRC") {
		c.options.Notice(fmt.Sprintf("WGETRC names %s: wget runs without its settings: %v", rc.path, withoutPath(rc.err)))
	}
	proxied := wgetrc{path: rc.path, text: proxySetting.ReplaceAll(rc.text, nil)}
	for _, one := range []struct {
		path string
		data []byte
		mode fs.FileMode
	}{
		{filepath.Join(dir, extraName), encodeCertificates(trusted.extra), 0o644},
		{bundleFile, encodeCertificates(trusted.all), 0o644},
		{storeFile(bundleFile), javaStore(trusted.all, c.options.Now()), 0o644},
		{filepath.Join(dir, phpDir, "abide.ini"), phpIni(bundleFile), 0o644},
		// The user's settings may have passwords.
		{wgetrcFile(bundleFile, false), rc.with(bundleFile), 0o600},
		{wgetrcFile(bundleFile, true), proxied.with(bundleFile), 0o600},
	} {
		if err := writeFile(one.path, one.data, one.mode); err != nil {
			return "", "", fmt.Errorf("writing the CA bundle: %w", err)
		}
	}
	c.written.Store(dir, true)
	if c.root.Load() != root {
		c.rewriteBundles() // the root was renewed meanwhile
	}
	return filepath.Join(dir, extraName), bundleFile, nil
}

// rewriteBundles puts the current root into the files that this process has written, and
// into those beside the CA certificate. The other certificates in them stay: another
// process may have written them for another user.
func (c *CA) rewriteBundles() {
	dirs := []string{c.dir}
	c.written.Range(func(dir, _ any) bool {
		dirs = append(dirs, dir.(string))
		return true
	})
	for root := (*root)(nil); root != c.root.Load(); {
		root = c.root.Load()
		for _, dir := range dirs {
			if err := c.rewriteBundle(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.options.Notice(fmt.Sprintf("clients that read %s do not trust the new CA certificate: %v", filepath.Join(dir, bundleName), err))
			}
		}
	}
}

func (c *CA) rewriteBundle(dir string) error {
	if dir == "" {
		return nil
	}
	for _, name := range []string{extraName, bundleName} {
		path := filepath.Join(dir, name)
		text, err := readRegular(path, maxFile)
		if err != nil {
			return err
		}
		others, _ := parseCertificates(text)
		all := c.chainWith(others)
		if err := writeFile(path, encodeCertificates(all), 0o644); err != nil {
			return err
		}
		if name == extraName {
			continue
		}
		if err := writeFile(storeFile(path), javaStore(all, c.options.Now()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// phpIni has PHP's curl extension and its streams trust a bundle.
func phpIni(bundleFile string) []byte {
	value := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`).Replace(bundleFile) + `"`
	return []byte("curl.cainfo = " + value + "\nopenssl.cafile = " + value + "\n")
}
