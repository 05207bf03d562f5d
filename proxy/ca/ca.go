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
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/abide-proxy/abide/internal/disk"
)

// defaultCache is the number of leaf certificates that are kept if Options.Cache is 0.
const defaultCache = 10_000

// Options configure a CA. The zero value makes a CA for any name.
type Options struct {
	// Names are the only names that the root may certify: example.com includes all names
	// below it; addresses are allowed. nil means any name, an empty slice none.
	Names []string
	// Cert and Key are the operator's own CA files, instead of a generated CA: a
	// certificate in PEM, followed by its issuers unless it is a root, and its key. They
	// are read once and never written or renewed. Set both or neither.
	Cert, Key string

	// Roots is a PEM file of further certificates that clients trust, or "". SetRoots
	// changes it.
	Roots string
	Cache int              // number of cached leaf certificates; 0: 10,000
	Now   func() time.Time // nil: time.Now
	// OnSign is called once for each leaf certificate that is signed.
	OnSign func()
	// Notice gets one sentence when the operator has to act: that clients must trust a new
	// root, and where it is. nil: ignored.
	Notice func(string)
}

// CA is the root with its leaf certificates. It is safe for concurrent use and starts no
// goroutines. Most callers need TLSConfig.
type CA struct {
	dir     string // "": everything is in memory
	options Options
	key     *ecdsa.PrivateKey
	root    atomic.Pointer[root]
	roots   atomic.Pointer[string] // Options.Roots, or the last SetRoots
	written sync.Map               // :: directory of a WriteBundle in this process → true

	// leafKey is the key of every leaf of this process. It never leaves memory. An attacker
	// who could read it there could read the root's key, too, so a key per name would
	// protect nothing.
	leafKey   *ecdsa.PrivateKey
	leafKeyID []byte

	leaves   *lru.Cache[string, *leaf] // :: host as requested → its leaf
	signings singleflight.Group        // concurrent requests for a name share one signing
	signing  chan struct{}             // semaphore of concurrent signings
	tickets  *tls.Config               // key of the session tickets of every name
}

// Dir is the CA's directory within a policy's data directory; "" for data "none", for which
// Open makes a CA in memory.
func Dir(data string) string {
	if data == "" || data == "none" {
		return ""
	}
	return filepath.Join(data, "ca")
}

func (o *Options) setDefaults() {
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
}

// Open reads the CA in dir, or makes one on the first run. With dir "" the CA is in memory
// and ends with the process.
func Open(dir string, o Options) (*CA, error) {
	o.setDefaults()
	wanted, err := parseNames(o.Names)
	if err != nil {
		return nil, err
	}
	c := &CA{
		dir: dir, options: o,
		// Signing only computes: more at once than there are processors would end no
		// sooner, and would take time from running requests.
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
	if c.isGiven() {
		c.dir = "" // the operator's CA is not saved
		err = c.openGiven(wanted)
	} else {
		err = c.load(wanted)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// load reads or makes the key and the root, and renews the root if it is insufficient.
func (c *CA) load(wanted constraints) error {
	now, files := c.options.Now(), files{c.dir}
	var first *root
	var err error
	if c.dir == "" {
		if c.key, err = makeKey(); err != nil {
			return err
		}
		first, err = newRoot(c.key, wanted, now)
	} else {
		if c.key, err = files.loadKey(); err != nil {
			return err
		}
		first, err = files.loadRoot(c.key, wanted, now)
	}
	if err != nil {
		return err
	}
	c.root.Store(first)
	err = c.renew(wanted)
	if disk.Unwritable(err) && now.Before(first.cert.NotAfter) {
		c.options.Notice(fmt.Sprintf("the CA certificate cannot be renewed, so hosts that it may not vouch for are not opened: %v", err))
		return nil
	}
	return err
}

// Foreign is the CA of another user's abide, of which only the certificate in PEM is known.
// It can write bundles, and must not be asked for leaf certificates.
func Foreign(text []byte, o Options) (*CA, error) {
	o.setDefaults()
	chain, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	if !chain[0].IsCA {
		return nil, errors.New("reading the CA certificate: it is none")
	}
	c := &CA{options: o}
	c.SetRoots(o.Roots)
	c.root.Store(&root{cert: chain[0], chain: chain, pem: text})
	return c, nil
}

// SetNames sets another list of intercepted names, as Options.Names. If the root does not
// cover them it is renewed, or stays if the operator configured it, and Options.Notice is
// called. After an error nothing has changed.
func (c *CA) SetNames(names []string) error {
	wanted, err := parseNames(names)
	if err != nil {
		return err
	}
	if c.isGiven() {
		c.noticeUncovered(wanted)
		return nil
	}
	return c.renew(wanted)
}

// SetRoots replaces Options.Roots for bundles made from now on.
func (c *CA) SetRoots(file string) { c.roots.Store(&file) }

// renew replaces the root certificate if it does not cover the wanted names or ends soon.
// The key stays, so leaves and clients that trust the old certificate keep working.
func (c *CA) renew(wanted constraints) error {
	for {
		mine, now := c.root.Load(), c.options.Now()
		if mine.isSufficient(wanted, now) {
			return nil
		}
		names := mine.names.union(wanted)
		kept, err := c.rootOnDisk(mine)
		if err != nil {
			return err
		}
		next := kept
		if !kept.isSufficient(names, now) {
			if next, err = newRoot(c.key, names.union(kept.names), now); err != nil {
				return err
			}
		}
		if !c.root.CompareAndSwap(mine, next) {
			continue // a concurrent call has renewed it: check the result
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

// rootOnDisk is the root on disk, which another process may have renewed since mine was
// read. Its names must stay covered.
func (c *CA) rootOnDisk(mine *root) (*root, error) {
	if c.dir == "" {
		return mine, nil
	}
	found, err := files{c.dir}.readRoot(c.key)
	if errors.Is(err, fs.ErrNotExist) {
		return mine, nil
	}
	return found, err
}

// PEM is the root certificate, which clients must trust. The operator's certificate is
// followed by its issuers.
func (c *CA) PEM() []byte { return append([]byte(nil), c.root.Load().pem...) }

// Fingerprint is the SHA-256 of the root certificate as openssl prints it:
// AB:CD:…
func (c *CA) Fingerprint() string { return c.root.Load().fingerprint() }

// About describes the root.
func (c *CA) About() About {
	r := c.root.Load()
	names := r.names.list()
	if c.isGiven() {
		names = r.constraintsText()
	}
	return About{
		CommonName: r.cert.Subject.CommonName, Subject: r.cert.Subject.String(), Fingerprint: r.fingerprint(),
		NotBefore: r.cert.NotBefore, NotAfter: r.cert.NotAfter,
		Any: r.names.any, Names: names, File: c.File(), Given: c.isGiven(),
	}
}

// About describes a root.
type About struct {
	CommonName, Subject string
	Fingerprint         string
	NotBefore, NotAfter time.Time
	Any                 bool     // it may certify every name
	Names               []string // otherwise, the names that it may certify
	File                string   // of its certificate, "" if in memory
	Given               bool     // configured by the operator, who renews it
}

// File is the file of the root certificate, "" if it is in memory.
func (c *CA) File() string {
	if c.isGiven() {
		return c.options.Cert
	}
	if c.dir == "" {
		return ""
	}
	return files{c.dir}.rootPath()
}

// Cached is the number of cached leaf certificates.
func (c *CA) Cached() int { return c.leaves.Len() }
