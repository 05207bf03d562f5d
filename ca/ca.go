package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// defaultCache is how many leaf certificates are kept when Options.Cache is 0.
const defaultCache = 10_000

// Options says how a CA works. The zero value makes one that may vouch for any
// name.
type Options struct {
	// Names are the only names that the root may vouch for: example.com stands
	// for itself and what is below it, addresses are written as such. nil means
	// any name, an empty slice none.
	Names []string
	// Cert and Key are files of the operator's to use instead of making a CA: a
	// certificate in PEM, its issuers after it unless it is a root, and its key.
	// They are read once and never written or renewed. Both or neither are set.
	Cert, Key string

	// Roots is a PEM file of certificates that clients trust too, "" for none.
	// SetRoots changes it.
	Roots string
	Cache int              // leaf certificates kept; 0 is 10,000
	Now   func() time.Time // the clock; nil is time.Now
	// OnSign is called once for each leaf certificate that is signed.
	OnSign func()
	// Notice is told, in one sentence, what the operator has to do: that clients
	// must trust a new root, and where it is. nil is not told.
	Notice func(string)
}

// CA is the root with its leaf certificates. It is safe for concurrent use and
// starts no goroutines. Most callers want TLSConfig.
type CA struct {
	dir     string // "" keeps everything in memory
	options Options
	key     *ecdsa.PrivateKey
	root    atomic.Pointer[root]
	roots   atomic.Pointer[string] // Options.Roots, or what SetRoots was told
	written sync.Map               // directory of WriteBundle in this process → true

	// leafKey serves every leaf of this process. It never leaves memory, and
	// whoever could read it there could read the root's key too, so a key for
	// each name would protect nothing and cost its making.
	leafKey   *ecdsa.PrivateKey
	leafKeyID []byte

	leaves  *lru.Cache[string, *leaf] // host as asked for → its leaf
	flight  singleflight.Group        // one signing for all who ask for a name at once
	signing chan struct{}             // a slot for each signing at a time
	tickets *tls.Config               // encrypts the session tickets of every name
}

// Dir is where the CA lives within the data directory of a policy; "" for "none",
// which Open takes for a CA that is kept in memory.
func Dir(data string) string {
	if data == "" || data == "none" {
		return ""
	}
	return filepath.Join(data, "ca")
}

// Open reads the CA in dir, or makes one there on the first run. With dir "" it
// is kept in memory and ends with the process.
func Open(dir string, o Options) (*CA, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Cache <= 0 {
		o.Cache = defaultCache
	}
	if o.OnSign == nil {
		o.OnSign = func() {}
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	wanted, err := parseNames(o.Names)
	if err != nil {
		return nil, err
	}
	c := &CA{
		dir: dir, options: o,
		// Signing is pure computation: more at once than there are processors
		// finish no sooner, and would take them from the requests that go on.
		signing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		tickets: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	c.SetRoots(o.Roots)
	if c.leaves, err = lru.New[string, *leaf](o.Cache); err != nil {
		return nil, fmt.Errorf("making the certificate cache: %w", err)
	}
	if c.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("making the key of the leaf certificates: %w", err)
	}
	if c.leafKeyID, err = keyID(&c.leafKey.PublicKey); err != nil {
		return nil, err
	}
	if c.given() {
		c.dir = "" // nothing is kept of a CA that is not abide's
		err = c.openGiven(wanted)
	} else {
		err = c.open(wanted)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// open finds or makes the key and the root, and renews the root when it no
// longer does.
func (c *CA) open(wanted constraints) error {
	now := c.options.Now()
	if c.dir == "" {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("making the CA's key: %w", err)
		}
		made, err := newRoot(key, wanted, now)
		if err != nil {
			return err
		}
		c.key = key
		c.root.Store(made)
		return nil
	}
	files := files{c.dir}
	key, err := files.loadKey()
	if err != nil {
		return err
	}
	first, err := files.loadRoot(key, wanted, now)
	if err != nil {
		return err
	}
	c.key = key
	c.root.Store(first)
	err = c.renew(wanted)
	if Unwritable(err) && now.Before(first.cert.NotAfter) {
		c.options.Notice(fmt.Sprintf("the CA certificate cannot be renewed, so hosts that it may not vouch for are not opened: %v", err))
		return nil
	}
	return err
}

// Unwritable tells whether an error of Open or SetNames is that nothing can be written: the
// disk is full, read-only or broken, or this user may not.
func Unwritable(err error) bool {
	for _, one := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// SetNames tells the CA that another list of names is intercepted from now on,
// as Options.Names has it. When the root does not cover them it is renewed, or
// stays if the operator gave it, and Options.Notice says so. On an error everything stays as it was.
func (c *CA) SetNames(names []string) error {
	wanted, err := parseNames(names)
	if err != nil {
		return err
	}
	if c.given() {
		c.tellUncovered(wanted)
		return nil
	}
	return c.renew(wanted)
}

// SetRoots names another file than Options.Roots. Bundles that are made from now
// on have its certificates.
func (c *CA) SetRoots(file string) { c.roots.Store(&file) }

// Roots is the PEM file of Options.Roots or SetRoots.
func (c *CA) Roots() string { return *c.roots.Load() }

// renew replaces the root certificate when it does not cover what is wanted or
// is near its end. The key stays, and with it every leaf and every client that
// trusts the old certificate.
func (c *CA) renew(wanted constraints) error {
	for {
		mine, now := c.root.Load(), c.options.Now()
		if mine.serves(wanted, now) {
			return nil
		}
		names := mine.names.union(wanted)
		kept, err := c.kept(mine)
		if err != nil {
			return err
		}
		next := kept
		if !kept.serves(names, now) {
			if next, err = newRoot(c.key, names.union(kept.names), now); err != nil {
				return err
			}
		}
		if !c.root.CompareAndSwap(mine, next) {
			continue // another call was faster, look at what it made
		}
		if c.dir == "" {
			c.rewriteBundles()
			return nil
		}
		if next != kept {
			if err := (files{c.dir}).replaceRoot(kept, next); err != nil {
				c.root.CompareAndSwap(next, mine)
				return err
			}
		}
		c.rewriteBundles()
		why := "may not vouch for every host that is now intercepted"
		if mine.names.covers(wanted) {
			why = "nears its end"
		}
		c.options.Notice(fmt.Sprintf("the CA certificate %s, so there is a new one: clients must trust %s (SHA-256 %s); the old one is kept as %s",
			why, c.File(), next.fingerprint(), files{c.dir}.asidePath(mine)))
		return nil
	}
}

// kept is the root on disk, which another process may have renewed since mine
// was read. What that one is good for must stay so.
func (c *CA) kept(mine *root) (*root, error) {
	if c.dir == "" {
		return mine, nil
	}
	found, err := files{c.dir}.readRoot(c.key)
	if errors.Is(err, fs.ErrNotExist) {
		return mine, nil
	}
	return found, err
}

// PEM is the root certificate, which clients must trust. One that the operator
// gave has its issuers after it.
func (c *CA) PEM() []byte { return append([]byte(nil), c.root.Load().pem...) }

// Fingerprint is the SHA-256 of the root certificate as openssl prints it:
// AB:CD:…
func (c *CA) Fingerprint() string { return c.root.Load().fingerprint() }

// About is what there is to know about the root.
func (c *CA) About() About {
	r := c.root.Load()
	names := r.names.list()
	if c.given() {
		names = r.constraintsText()
	}
	return About{
		CommonName: r.cert.Subject.CommonName, Subject: r.cert.Subject.String(), Fingerprint: r.fingerprint(),
		NotBefore: r.cert.NotBefore, NotAfter: r.cert.NotAfter,
		Any: r.names.any, Names: names, File: c.File(), Given: c.given(),
	}
}

// About describes a root.
type About struct {
	CommonName, Subject string
	Fingerprint         string
	NotBefore, NotAfter time.Time
	Any                 bool     // it may vouch for every name
	Names               []string // those it may vouch for otherwise
	File                string   // of its certificate, "" when it is kept in memory
	Given               bool     // by the operator, who renews it
}

// File is where the root certificate is, "" when it is kept in memory.
func (c *CA) File() string {
	if c.given() {
		return c.options.Cert
	}
	if c.dir == "" {
		return ""
	}
	return files{c.dir}.rootPath()
}

// Cached is how many leaf certificates are kept at the moment.
func (c *CA) Cached() int { return c.leaves.Len() }
