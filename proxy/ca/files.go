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
	"runtime"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/disk"
)

// files is the directory of a CA.
type files struct{ dir string }

func (f files) keyPath() string  { return filepath.Join(f.dir, "ca-key.pem") }
func (f files) rootPath() string { return filepath.Join(f.dir, "ca.pem") }

// The names of what WriteBundle writes, besides the files for wget and PHP.
const (
	extraName  = "extra.pem"
	bundleName = "bundle.pem"
	storeName  = "bundle.jks"
)

// RootFile is the file of the CA's certificate in dir.
func RootFile(dir string) string { return files{dir}.rootPath() }

// Begun tells whether dir has, or may have, a part of a CA.
func Begun(dir string) bool {
	for _, path := range []string{files{dir}.rootPath(), files{dir}.keyPath()} {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// loadKey reads the key, and makes it if it does not exist.
func (f files) loadKey() (*ecdsa.PrivateKey, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the CA: %w", err)
	}
	key, err := f.knownKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = makeKey(); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the CA's key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := writeNew(f.keyPath(), text, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("writing the CA's key: %w", err)
	}
	return f.readKey() // ours, or that of a faster process
}

func makeKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	return key, nil
}

// knownKey reads the key, if the directory is safe. The error is fs.ErrNotExist where there is neither a key nor a certificate.
func (f files) knownKey() (*ecdsa.PrivateKey, error) {
	if err := checkDirMode(f.dir); err != nil {
		return nil, err
	}
	_, missing := os.Stat(f.rootPath()) // before the key, which another process that makes both makes first
	key, err := f.readKey()
	if missing == nil && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no key beside it: restore %s, or remove %s to have a new CA made, which clients must trust anew",
			f.rootPath(), f.keyPath(), f.rootPath())
	}
	return key, err
}

func (f files) readKey() (*ecdsa.PrivateKey, error) {
	text, mode, err := disk.Read(f.keyPath(), maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's key %s: %w", f.keyPath(), withoutPath(err))
	}
	if may(mode, 0o077) { // whoever has it can impersonate every host to the clients that trust this CA
		return nil, fmt.Errorf("the CA's key %s can be used by others (mode %04o), who could then impersonate every host: chmod 600 it, or remove it together with ca.pem if it may have been read", f.keyPath(), mode.Perm())
	}
	signer, err := parseGivenKey(text)
	key, ok := signer.(*ecdsa.PrivateKey)
	if err == nil && !ok {
		err = errors.New("has a key that is not ECDSA")
	}
	if err != nil {
		return nil, f.damagedError(f.keyPath(), fmt.Errorf("it %w", err))
	}
	return key, nil
}

// may tells whether others than the owner may do something to a file. Where permissions are lists and not bits, the data
// directory is in the user's profile, which others cannot read.
func may(mode, do fs.FileMode) bool { return runtime.GOOS != "windows" && mode&do != 0 }

// checkDirMode refuses a directory in which others could put another key.
func checkDirMode(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("reading the directory of the CA: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the directory of the CA: %w", &fs.PathError{Op: "open", Path: dir, Err: fs.ErrInvalid})
	}
	if may(info.Mode(), 0o022) {
		cause := ""
		if info.Mode()&fs.ModeSetgid != 0 {
			cause = "; where a pod's fsGroup has done this, set fsGroupChangePolicy: OnRootMismatch beside it, too, and chmod 600 the key"
		}
		return fmt.Errorf("others can write to the directory of the CA %s (mode %04o) and so exchange its key: chmod 700 it%s", dir, info.Mode().Perm(), cause)
	}
	return nil
}

// loadRoot reads the certificate, and makes it if it does not exist.
func (f files) loadRoot(key *ecdsa.PrivateKey, names constraints, now time.Time) (*root, error) {
	found, err := f.readRoot(key)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	made, err := newRoot(key, names, now)
	if err != nil {
		return nil, err
	}
	if err := writeNew(f.rootPath(), made.pem, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("writing the CA certificate: %w", err)
	}
	return f.readRoot(key)
}

func (f files) readRoot(key *ecdsa.PrivateKey) (*root, error) {
	text, err := readRegular(f.rootPath(), maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate %s: %w", f.rootPath(), withoutPath(err))
	}
	certs, err := parseCertificates(text)
	if err != nil {
		return nil, f.damagedError(f.rootPath(), err)
	}
	found, err := readRoot(certs[0].Raw, key)
	if err != nil {
		return nil, f.damagedError(f.rootPath(), err)
	}
	return found, nil
}

// asidePath is the file of a replaced root.
func (f files) asidePath(old *root) string {
	name := strings.ToLower(strings.ReplaceAll(old.fingerprint(), ":", ""))[:16]
	return filepath.Join(f.dir, "ca-"+name+".pem")
}

// replaceRoot replaces old, which is saved under asidePath, by next.
func (f files) replaceRoot(old, next *root) error {
	if err := writeNew(f.asidePath(old), old.pem, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping the old CA certificate: %w", err)
	}
	if err := writeFile(f.rootPath(), next.pem, 0o644); err != nil {
		return fmt.Errorf("writing the new CA certificate: %w", err)
	}
	return nil
}

// damagedError is the error of a key or certificate that cannot be used. It says how to mend that.
func (f files) damagedError(path string, err error) error {
	return fmt.Errorf("reading %s: %w: restore it, or remove %s and %s to have a new CA made, which clients must trust anew",
		path, err, f.keyPath(), f.rootPath())
}

// writeNew writes a file that does not exist, atomically. If several processes do, one
// succeeds and the others get fs.ErrExist.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	return disk.Write(path, mode, os.Link, whole(data))
}

// writeFile writes or replaces a file atomically.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	return disk.Write(path, mode, os.Rename, whole(data))
}

func whole(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

// Inspect tells why Open would refuse the CA in dir, and changes nothing. A missing CA or
// directory is fine.
func Inspect(dir string) error {
	if dir == "" {
		return nil
	}
	if err := creatable(dir); err != nil {
		return fmt.Errorf("making the directory of the CA: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := files{dir}
	key, err := f.knownKey()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := f.readRoot(key); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// creatable tells why a directory is missing and cannot be created.
func creatable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("it is a link to what is not there")}
	}
	if above := filepath.Dir(dir); above != dir {
		return creatable(above)
	}
	return nil
}
