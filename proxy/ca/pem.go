package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/abide-proxy/abide/internal/disk"
)

// maxFile bounds the bytes that are read of a file.
const maxFile = 4 << 20

// minRSABits is the size of RSA key below which clients refuse signatures.
const minRSABits = 2048

// readRegular reads a regular file of at most limit and maxFile bytes.
func readRegular(path string, limit int) ([]byte, error) {
	text, _, err := disk.Read(path, int64(min(limit, maxFile)))
	return text, err
}

// readCertificates reads the certificates of a PEM file, or of the files of a
// directory, of at most limit bytes. What could be read is returned with an
// error, too. A directory may have files of other kinds.
func readCertificates(path string, limit int) (certs []*x509.Certificate, size int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, withoutPath(err)
	}
	if !info.IsDir() {
		text, err := readRegular(path, limit)
		if err != nil {
			return nil, len(text), withoutPath(err)
		}
		certs, err := parseCertificates(text)
		return certs, len(text), err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, 0, withoutPath(err)
	}
	for _, one := range entries {
		text, err := readRegular(filepath.Join(path, one.Name()), limit-size)
		if err != nil {
			continue
		}
		size += len(text)
		found, _ := parseCertificates(text)
		certs = append(certs, found...)
	}
	return certs, size, nil
}

// withoutPath is an error without the path, which the message has already.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// parseCertificates are the certificates of a PEM text. The error says why some
// of them are left out, or that there is none.
func parseCertificates(text []byte) (certs []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			if err == nil && len(certs) == 0 {
				err = errors.New("the file has no certificate in PEM (BEGIN CERTIFICATE)")
			}
			return certs, err
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, bad := x509.ParseCertificate(block.Bytes)
		if bad != nil {
			err = fmt.Errorf("a certificate in the file cannot be read: %w", bad)
			continue
		}
		certs = append(certs, cert)
	}
}

// encodeCertificates is the PEM text of certificates.
func encodeCertificates(certs []*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, one := range certs {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: one.Raw}) // a Buffer takes everything
	}
	return b.Bytes()
}

// parseGivenKey reads the first private key of a PEM text. Its errors follow the
// name of the file and quote nothing.
func parseGivenKey(text []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("has no private key in PEM (BEGIN PRIVATE KEY)")
		}
		var parsed any
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY", block.Headers["DEK-Info"] != "":
			return nil, errors.New("is encrypted, and abide cannot ask for its password: decrypt it with openssl pkey -in FILE -out FILE")
		case block.Type == "PRIVATE KEY":
			parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "EC PRIVATE KEY":
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		case block.Type == "RSA PRIVATE KEY":
			parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, errors.New("has a private key that cannot be read")
		}
		switch key := parsed.(type) {
		case *ecdsa.PrivateKey:
			return key, nil
		case *rsa.PrivateKey:
			if key.N.BitLen() < minRSABits {
				return nil, fmt.Errorf("has an RSA key of %d bits, which clients refuse: it takes at least %d", key.N.BitLen(), minRSABits)
			}
			return key, nil
		}
		return nil, errors.New("has a key that is neither ECDSA nor RSA, which not every client accepts")
	}
}
