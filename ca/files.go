package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxFile bounds what is read of a file that was put in the way.
const maxFile = 4 << 20

// files is the directory of a CA.
type files struct{ dir string }

func (f files) keyPath() string  { return filepath.Join(f.dir, "ca-key.pem") }
func (f files) rootPath() string { return filepath.Join(f.dir, "ca.pem") }

// Exists tells whether there is a CA in dir already.
func Exists(dir string) bool {
	_, err := os.Stat(files{dir}.rootPath())
	return err == nil
}

// Begun tells whether dir has a part of a CA, or may have.
func Begun(dir string) bool {
	for _, path := range []string{files{dir}.rootPath(), files{dir}.keyPath()} {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// loadKey reads the key, after having made it where there is none.
func (f files) loadKey() (*ecdsa.PrivateKey, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the CA: %w", err)
	}
	if err := private(f.dir); err != nil {
		return nil, err
	}
	key, err := f.readKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := os.Stat(f.rootPath()); err == nil {
		// Another process may have made both since the key was looked for.
		if key, err := f.readKey(); !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
		return nil, f.keyless()
	}
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the CA's key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := create(f.keyPath(), text, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("writing the CA's key: %w", err)
	}
	return f.readKey() // ours, or that of whoever was faster
}

// keyless is for a certificate whose key is not there.
func (f files) keyless() error {
	return fmt.Errorf("%s has no key beside it: restore %s, or remove %s to have a new CA made, which clients must trust anew",
		f.rootPath(), f.keyPath(), f.rootPath())
}

// open opens a regular file. To open another kind of file could wait for ever.
func (f files) open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

func (f files) readKey() (*ecdsa.PrivateKey, error) {
	file, err := f.open(f.keyPath())
	if err != nil {
		return nil, fmt.Errorf("reading the CA's key: %w", err)
	}
	defer file.Close()
	if err := secret(file); err != nil {
		return nil, err
	}
	key, err := parseKey(file)
	if err != nil {
		return nil, f.damaged(f.keyPath(), err)
	}
	return key, nil
}

func parseKey(r io.Reader) (*ecdsa.PrivateKey, error) {
	block, err := readPEM(r, "PRIVATE KEY", "EC PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	if block.Type == "EC PRIVATE KEY" {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("not an elliptic curve key")
		}
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a private key")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an ECDSA key")
	}
	return key, nil
}

// loadRoot reads the certificate, after having made it where there is none.
func (f files) loadRoot(key *ecdsa.PrivateKey, names constraints, now time.Time) (*root, error) {
	found, err := f.readRoot(key)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	made, err := newRoot(key, names, now)
	if err != nil {
		return nil, err
	}
	if err := create(f.rootPath(), made.pem, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("writing the CA certificate: %w", err)
	}
	return f.readRoot(key)
}

func (f files) readRoot(key *ecdsa.PrivateKey) (*root, error) {
	file, err := f.open(f.rootPath())
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	defer file.Close()
	block, err := readPEM(file, "CERTIFICATE")
	if err != nil {
		return nil, f.damaged(f.rootPath(), err)
	}
	found, err := readRoot(block.Bytes, key)
	if err != nil {
		return nil, f.damaged(f.rootPath(), err)
	}
	return found, nil
}

// asidePath is where a root is kept that made way for another one.
func (f files) asidePath(old *root) string {
	name := strings.ToLower(strings.ReplaceAll(old.fingerprint(), ":", ""))[:16]
	return filepath.Join(f.dir, "ca-"+name+".pem")
}

// replaceRoot puts next in the place of old, which is kept aside.
func (f files) replaceRoot(old, next *root) error {
	if err := create(f.asidePath(old), old.pem, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping the old CA certificate: %w", err)
	}
	if err := replace(f.rootPath(), next.pem, 0o644); err != nil {
		return fmt.Errorf("writing the new CA certificate: %w", err)
	}
	return nil
}

func (f files) damaged(path string, err error) error {
	return fmt.Errorf("reading %s: %w: restore it, or remove %s and %s to have a new CA made, which clients must trust anew",
		path, err, f.keyPath(), f.rootPath())
}

// readPEM finds the first block of one of these types.
func readPEM(r io.Reader, types ...string) (*pem.Block, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return nil, errors.New("the file is empty")
	case len(text) > maxFile:
		return nil, errors.New("the file is too large")
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, fmt.Errorf("no PEM block of type %s in it", types[0])
		}
		for _, one := range types {
			if block.Type == one {
				return block, nil
			}
		}
	}
}

// create writes a file that does not exist, completely or not at all. When
// several processes do, one wins and the others get fs.ErrExist.
func create(path string, data []byte, mode fs.FileMode) error {
	return place(path, data, mode, claim)
}

// replace writes a file whether it exists or not, completely or not at all.
func replace(path string, data []byte, mode fs.FileMode) error {
	return place(path, data, mode, os.Rename)
}

func place(path string, data []byte, mode fs.FileMode, put func(from, to string) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Chmod(mode)
	}
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return put(temporary.Name(), path)
}
