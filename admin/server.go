package admin

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

// Times and sizes that no honest client of this listener exceeds. A reader that
// does not read holds its connection and goroutine for the write timeout at most.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 64 << 10
)

// Server serves a handler of New with every timeout set. Its Shutdown ends streams of events.
func Server(handler http.Handler) *http.Server {
	ending := make(chan struct{})
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// "OPTIONS *" is a question to a proxy's next server; the handler says so.
		DisableGeneralOptionsHandler: true,
		// What it would say are strangers' malformed requests; panics are logged
		// by the handler itself.
		ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, ending)
		},
	}
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(ending) }))
	return server
}

// endingKey is the key of a channel in the contexts of requests. It is closed when the server
// shuts down.
type endingKey struct{}

// endingOf is closed when the server of a request shuts down. It is nil, which never ends, for
// another server than that of Server.
func endingOf(r *http.Request) <-chan struct{} {
	ending, _ := r.Context().Value(endingKey{}).(chan struct{})
	return ending
}

// healthz tells that the process answers. It tells nothing else, since anybody
// may ask.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz tells whether clients should be sent here, and what is missing. Details
// have addresses, paths and errors: they are for whoever may ask for everything.
func (g *guard) readyz(process Process, w http.ResponseWriter, r *http.Request) (any, error) {
	detailed, ok := g.mayKnow(w, r)
	if !ok {
		return nil, nil
	}
	checks := process.Ready()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ready(checks) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, one := range checks {
		line := one.Name + ": " + one.Word()
		if one.Detail != "" && detailed {
			line += " (" + one.Detail + ")"
		}
		_, _ = fmt.Fprintln(w, strings.Map(status.Printable, line))
	}
	if len(checks) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
	}
	return nil, nil
}

func ready(checks []status.Check) bool {
	return !slices.ContainsFunc(checks, func(check status.Check) bool { return !check.OK })
}

// bundleLife is the time after which a bundle is made again: its system certificates may
// change, and anybody may ask for it.
const bundleLife = time.Minute

// certificates hands out what clients must trust, to whoever asks. It never has
// the key.
type certificates struct {
	ca    *ca.CA // nil: there is none
	clock func() time.Time
}

// madeBundle is a bundle, and for which CA certificate it was made: "" where it could not be made.
type madeBundle struct {
	data        []byte
	fingerprint string
}

// root answers with the CA certificate alone.
func (c *certificates) root(w http.ResponseWriter, _ *http.Request) (any, error) {
	if c.ca == nil {
		return nil, errNoCA
	}
	attach(w, "application/x-x509-ca-cert", "abide-ca.pem", c.ca.PEM())
	return nil, nil
}

// bundle answers with the CA certificate and the system's, in PEM or as a Java key
// store.
func (c *certificates) bundle(format, kind string, encode func(*ca.CA) ([]byte, error)) endpoint {
	made := &cached[madeBundle]{kept: bundleLife}
	return func(w http.ResponseWriter, _ *http.Request) (any, error) {
		if c.ca == nil {
			return nil, errNoCA
		}
		fingerprint, last := c.ca.Fingerprint(), made.last.Load()
		bundle := made.get(c.clock(), last != nil && last.value.fingerprint != fingerprint, func() madeBundle {
			if data, err := encode(c.ca); err == nil {
				return madeBundle{data, fingerprint}
			}
			return madeBundle{}
		})
		if bundle.fingerprint == "" {
			// The error may name files of this machine, and anybody reads this.
			return nil, because(http.StatusServiceUnavailable, "the certificates of abide's own system cannot be read, so there is no bundle; /ca.pem has abide's alone")
		}
		attach(w, kind, "abide-bundle."+format, bundle.data)
		return nil, nil
	}
}

const errNoCA = status.Missing("there is no CA, because nothing is intercepted")

func attach(w http.ResponseWriter, kind, name string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(data)
}
