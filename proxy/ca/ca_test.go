package ca

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("CA_TEST_OPEN"); dir != "" {
		openForParent(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// testRoots are system roots that do not depend on the machine: some other CA.
var testRoots = sync.OnceValue(func() []byte {
	other, err := Open("", Options{})
	if err != nil {
		panic(err)
	}
	return other.PEM()
})

func open(t testing.TB, dir string, o Options) *CA {
	t.Helper()
	c, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// leafOf is the parsed certificate of a host.
func leafOf(t testing.TB, c *CA, host string) *x509.Certificate {
	t.Helper()
	config, err := c.TLSConfig(host)
	if err != nil {
		t.Fatalf("a certificate for %s: %v", host, err)
	}
	cert, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func rootOf(t testing.TB, c *CA) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(c.PEM())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// pool trusts these CAs and nothing else.
func pool(cas ...*CA) *x509.CertPool {
	p := x509.NewCertPool()
	for _, one := range cas {
		p.AppendCertsFromPEM(one.PEM())
	}
	return p
}

// handshake has a client connect to a server that answers in a host's name, and
// returns what each side saw.
func handshake(t testing.TB, c *CA, host string, client *tls.Config) (state tls.ConnectionState, ofClient, ofServer error) {
	t.Helper()
	config, err := c.TLSConfig(host)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	near, far := connected(t)
	defer near.Close()
	var serving sync.WaitGroup
	defer serving.Wait()
	served := make(chan error, 1)
	serving.Go(func() {
		defer far.Close()
		server := tls.Server(far, config)
		err := server.HandshakeContext(ctx)
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		served <- err
	})
	conn := tls.Client(near, client)
	ofClient = conn.HandshakeContext(ctx)
	if ofClient == nil {
		// A ticket arrives before the first byte of the answer.
		_, ofClient = conn.Read(make([]byte, 1))
	}
	state = conn.ConnectionState()
	ofServer = <-served
	return state, ofClient, ofServer
}

// listen finds a port on loopback. A test elsewhere that holds ten thousand
// connections can take every port of one address, but not those of the next.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for last := 1; last < 50; last++ {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", last)); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// connected are the two ends of a real connection: those of a pipe have no
// buffers, so that an alert waits for a ticket and the ticket for the alert.
func connected(t testing.TB) (near, far net.Conn) {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	var err error
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func write(t testing.TB, path string, data []byte, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// run is a real program with its output.
func run(t testing.TB, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Fatalf("running %s: %v", name, err)
	}
	return string(out), err
}

// openssl verifies the certificate of a host strictly, against our root alone.
func openssl(t testing.TB, c *CA, host string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	root := write(t, filepath.Join(dir, "root.pem"), c.PEM(), 0o644)
	leaf := write(t, filepath.Join(dir, "leaf.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafOf(t, c, host).Raw}), 0o644)
	which := "-verify_hostname"
	if net.ParseIP(host) != nil {
		which = "-verify_ip"
	}
	return run(t, nil, "openssl", "verify", "-x509_strict", "-no-CApath", "-no-CAstore", "-CAfile", root,
		"-purpose", "sslserver", which, host, leaf)
}

func base64Lines(der []byte) string { return base64.StdEncoding.EncodeToString(der) + "\n" }

func long(labels int) string { return strings.Repeat("abcdefghijklmnopqrstuvwx.", labels) + "test" }
