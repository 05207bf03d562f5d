package ca

import (
	"errors"
	"fmt"
	"time"
)

// Foreign is the CA of another user's abide, of which only the certificate in PEM is known.
// It can write bundles, and must not be asked for leaf certificates.
func Foreign(text []byte, o Options) (*CA, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	chain, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	if len(chain) == 0 || !chain[0].IsCA {
		return nil, errors.New("reading the CA certificate: it is none")
	}
	c := &CA{options: o}
	c.SetRoots(o.Roots)
	c.root.Store(&root{cert: chain[0], chain: chain, pem: text})
	return c, nil
}
