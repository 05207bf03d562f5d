package admin

import (
	"net/http"
	"sync"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// bundleLife is the time after which a bundle is made again: its system certificates may
// change, and anybody may ask for it.
const bundleLife = time.Minute

// certificates hands out what clients must trust, to whoever asks. It never has
// the key.
type certificates struct {
	ca    *ca.CA // nil: there is none
	clock func() time.Time

	mu   sync.Mutex
	made map[string]madeBundle // "pem", "jks" → the last one
}

// madeBundle is a bundle, and for which CA certificate it was made.
type madeBundle struct {
	data        []byte
	fingerprint string
	at          time.Time
}

// root answers with the CA certificate alone.
func (c *certificates) root(w http.ResponseWriter, _ *http.Request) {
	if c.ca == nil {
		c.none(w)
		return
	}
	attach(w, "application/x-x509-ca-cert", "abide-ca.pem", c.ca.PEM())
}

// bundle answers with the CA certificate and the system's, in PEM or as a Java key
// store.
func (c *certificates) bundle(format, kind string, encode func(*ca.CA) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if c.ca == nil {
			c.none(w)
			return
		}
		data, err := c.encoded(format, encode)
		if err != nil {
			// The error may name files of this machine, and anybody reads this.
			refuse(w, http.StatusServiceUnavailable, "the certificates of abide's own system cannot be read, so there is no bundle; /ca.pem has abide's alone")
			return
		}
		attach(w, kind, "abide-bundle."+format, data)
	}
}

// encoded is a bundle of at most bundleLife ago.
func (c *certificates) encoded(format string, encode func(*ca.CA) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	last, now := c.made[format], c.clock()
	c.mu.Unlock()
	fingerprint := c.ca.Fingerprint()
	if last.fingerprint == fingerprint && now.Sub(last.at) < bundleLife {
		return last.data, nil
	}
	data, err := encode(c.ca)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[format] = madeBundle{data, fingerprint, now}
	return data, nil
}

func (c *certificates) none(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "there is no CA, because nothing is intercepted")
}

func attach(w http.ResponseWriter, kind, name string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(data)
}
