package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// instance is a service in real time.
type instance struct {
	kind *kitKind
	mu   sync.Mutex
	site *site // guarded by mu
}

// counts returns how many requests were served and refused.
func (i *instance) counts() (served, refused int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.site.served), len(i.site.refused)
}

// numberHeader has the number of a request.
const numberHeader = "Kit-Request"

func (i *instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.Header.Get(numberHeader))
	if err != nil {
		http.NotFound(w, r) // robots.txt and the like
		return
	}
	token := r.Header.Get("Authorization")
	if token == blockedToken {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	i.mu.Lock()
	status, h, body, left := i.site.answer(time.Now(), token, r.URL.Path, n)
	refused := h.Get(refusedHeader) != ""
	wait := i.site.latency
	if refused {
		left()
		wait = cmp.Or(i.kind.tarpit, quick)
	}
	i.mu.Unlock()
	if err := process.Pause(r.Context(), wait); err != nil {
		status = 0 // the client has left
	}
	if !refused {
		i.mu.Lock()
		left()
		i.mu.Unlock()
	}
	if status == 0 {
		i.hangUp(w)
		return
	}
	if i.kind.tarpit > 0 {
		h.Del(refusedHeader)
	}
	if h.Get(refusedHeader) == "" {
		var kind string
		kind, body = i.kind.page(n)
		h.Set("Content-Type", kind)
	}
	maps.Copy(w.Header(), h)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// hangUp closes the connection without an answer.
func (i *instance) hangUp(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := h.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && i.kind.reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// kitOrigin serves instances by their hosts, at an address for http and one for https.
type kitOrigin struct {
	plain, secure string
	roots         string // a file with the certificate
	pool          *x509.CertPool
	mu            sync.Mutex
	of            map[string]*instance // by host
}

// serve begins a service under a host.
func (o *kitOrigin) serve(host string, k *kitKind) *instance {
	i := &instance{kind: k, site: newSite(&k.service, time.Now(), 0)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[host] = i
	return i
}

func (o *kitOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	i := o.of[r.Host]
	o.mu.Unlock()
	if i == nil {
		http.NotFound(w, r)
		return
	}
	i.ServeHTTP(w, r)
}

// address returns where a kind is served.
func (o *kitOrigin) address(k *kitKind) string {
	if k.tls {
		return o.secure
	}
	return o.plain
}

// newKitOrigin listens on loopback until the context ends.
func newKitOrigin(ctx context.Context, file string) (*kitOrigin, error) {
	o := &kitOrigin{roots: file, pool: x509.NewCertPool(), of: map[string]*instance{}}
	names := []string{"*" + kitDomain, "*" + retryDomain}
	for _, k := range kitKinds() {
		names = append(names, k.through())
	}
	certificate, err := o.certify(names)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	for _, to := range []*string{&o.plain, &o.secure} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*to = l.Addr().String()
		server := &http.Server{Handler: o, TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0)}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		go func() { // ends with the context
			if to == &o.secure {
				_ = server.ServeTLS(l, "", "")
			} else {
				_ = server.Serve(l)
			}
		}()
	}
	return o, nil
}

// certify makes a certificate for all hosts.
func (o *kitOrigin) certify(names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "services of the kit"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	o.pool.AppendCertsFromPEM(text)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(o.roots, text, 0o644)
}
