package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// tlsListener accepts connections, which speak TLS while there is a configuration of that.
type tlsListener struct {
	net.Listener
	config *atomic.Pointer[tls.Config]
}

func (l tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if config := l.config.Load(); err == nil && config != nil {
		return tls.Server(conn, config), nil
	}
	return conn, err
}

// listenersTLS has the certificates of the listeners. A reload changes them for new connections.
type listenersTLS struct{ proxy, admin atomic.Pointer[tls.Config] }

// load reads the certificates that a policy names; nothing changes if one cannot be read.
func (l *listenersTLS) load(p *policy.Policy) error {
	proxy, err := tlsConfig("listen_cert", p.TLS)
	admin, failed := tlsConfig("admin.cert", p.Admin.TLS)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	l.proxy.Store(proxy)
	l.admin.Store(admin)
	return nil
}

// tlsConfig reads the files of a certificate and its key.
func tlsConfig(key string, files policy.KeyPair) (*tls.Config, error) {
	if !files.Given() {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: reading the certificate %s and its key %s: %w; both are PEM, the certificate first and its issuers after it", key, files.Cert, files.Key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}, nil
}

// secure begins the address of an admin listener that speaks TLS.
const secure = "https://"

// schemeOf is the scheme of a listener with a certificate, or none.
func schemeOf(files policy.KeyPair) string {
	if files.Given() {
		return "https"
	}
	return "http"
}

// adminAddress is the address at which commands reach the admin listener of a policy, "" for none.
func adminAddress(p *policy.Policy) string {
	address, _ := localAddress(p.Admin.Listen, p.Admin.TLS.Given() || p.Admin.CA != "") // a policy has only valid ones
	return address
}

// localAddress is an address of this machine at which a listener is reached that may be on
// all addresses. It begins with https:// where that speaks TLS.
func localAddress(listen string, speaksTLS bool) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin.listen: %w", err)
	}
	switch host {
	case "", "0.0.0.0", "::": // Go has the last take IPv4 as well
		host = "127.0.0.1"
	}
	if speaksTLS {
		return secure + net.JoinHostPort(host, port), nil
	}
	return net.JoinHostPort(host, port), nil
}

// directTransport uses no proxy, unlike http.DefaultTransport, which uses the proxy that the
// environment names. It is for addresses on this machine or nearby.
var directTransport = &http.Transport{
	DisableKeepAlives: true,
	DialContext:       (&net.Dialer{Timeout: time.Second}).DialContext,
}

// trustAdmin has commands trust what the system trusts, the certificates that admin.ca names, and
// that of admin.cert. On this machine that may be for any name: commands reach it by an address.
func trustAdmin(p *policy.Policy) error {
	system, _ := x509.SystemCertPool() // nil: there is none
	roots := cmp.Or(system, x509.NewCertPool())
	config := &tls.Config{RootCAs: roots}
	if p.Admin.CA != "" {
		pem, err := policy.ReadFile(p.Admin.CA, maxCertificate)
		if err == nil && !roots.AppendCertsFromPEM(pem) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			return fmt.Errorf("reading admin.ca %s: %w", p.Admin.CA, err)
		}
	}
	// Another user's abide may have a key that this user may not read.
	if listener, err := tlsConfig("admin.cert", p.Admin.TLS); err == nil && listener != nil {
		leaf := listener.Certificates[0].Leaf
		roots.AddCert(leaf)
		if strings.HasPrefix(adminAddress(p), secure+"127.") && len(leaf.DNSNames) > 0 {
			config.ServerName = strings.Replace(leaf.DNSNames[0], "*", "abide", 1)
		}
	}
	directTransport.TLSClientConfig = config
	return nil
}

// maxCertificate bounds what is read of a CA certificate and its issuers, in bytes.
const maxCertificate = 1 << 20
