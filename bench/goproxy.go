package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/elazarl/goproxy"
)

// goproxyOrders tell the bare goproxy where names lead and how to intercept.
type goproxyOrders struct {
	Plain, Secure    string // the origin's addresses
	Intercept        bool
	Idle             int    // connections that its transport keeps for one host
	Certificate, Key string // of the CA that signs, with Intercept
	Roots            string // what the origin's certificate is checked against
}

type listening struct{ Address string }

// goproxyRole is goproxy as it comes, but that names lead to the bench's origin
// and that origins are verified, as abide verifies them.
func goproxyRole(in *json.Decoder, out *json.Encoder) error {
	var orders goproxyOrders
	if err := in.Decode(&orders); err != nil {
		return err
	}
	proxy := goproxy.NewProxyHttpServer()
	proxy.Logger = log.New(io.Discard, "", 0)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		to := orders.Secure
		if strings.HasSuffix(address, ":80") || strings.HasPrefix(address, bulkHost) {
			to = orders.Plain
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	roots, err := os.ReadFile(orders.Roots)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	proxy.Tr = &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: orders.Idle, // 0: what http.Transport has by default
	}
	proxy.ConnectDial = func(network, address string) (net.Conn, error) {
		return dial(context.Background(), network, address)
	}
	if orders.Intercept {
		ca, err := tls.LoadX509KeyPair(orders.Certificate, orders.Key)
		if err != nil {
			return fmt.Errorf("loading goproxy's CA: %w", err)
		}
		sign := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
		proxy.OnRequest().HandleConnectFunc(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
			return sign, host
		})
		proxy.CertStore = &certificates{of: map[string]*tls.Certificate{}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	if err := out.Encode(listening{l.Addr().String()}); err != nil {
		return err
	}
	var end struct{}
	return in.Decode(&end) // the end of the bench's run is the end of this process
}
