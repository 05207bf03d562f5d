package ca

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// underRoots has this process take other roots for the system's.
func underRoots(t *testing.T, text []byte) {
	t.Helper()
	withoutUserRoots(t)
	t.Setenv("SSL_CERT_DIR", t.TempDir()) // both leave out the system's
	t.Setenv("SSL_CERT_FILE", write(t, filepath.Join(t.TempDir(), "roots.pem"), text, 0o644))
}

// withoutUserRoots has nothing of this process's environment name certificates.
func withoutUserRoots(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, name := range slices.Concat(addingVariables, replacingVariables, []string{"SSL_CERT_DIR", "GIT_SSL_CAPATH", "WGETRC"}) {
		t.Setenv(name, "")
	}
}

func certificates(t *testing.T, text []byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cert)
	}
}

func TestABundleHasOurRootAndTheSystems(t *testing.T) {
	underRoots(t, append(testRoots(), testRoots()...))
	c := open(t, "", Options{})
	text, err := c.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	all := certificates(t, text)
	if len(all) != 2 || !all[0].Equal(rootOf(t, c)) || !all[1].Equal(certificates(t, testRoots())[0]) {
		t.Errorf("the bundle has %d certificates", len(all))
	}
}

func TestABundleLeavesOutOurOlderRoots(t *testing.T) {
	c := open(t, "", Options{Names: []string{"api.test"}})
	old := c.PEM()
	if err := c.SetNames([]string{"other.test"}); err != nil {
		t.Fatal(err)
	}
	underRoots(t, append(old, testRoots()...))
	text, err := c.Bundle()
	if err != nil || bytes.Contains(text, old) || !bytes.Contains(text, c.PEM()) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestABundleOfThisMachineHasItsRoots(t *testing.T) {
	withoutUserRoots(t)
	text, err := open(t, "", Options{}).Bundle()
	if err != nil || len(certificates(t, text)) < 20 {
		t.Errorf("%v, %d certificates", err, len(certificates(t, text)))
	}
}

func TestRootsMayComeFromADirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pem"), testRoots(), 0o644)
	write(t, filepath.Join(dir, "README"), []byte("no certificate"), 0o644)
	withoutUserRoots(t)
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "missing"))
	t.Setenv("SSL_CERT_DIR", dir)
	if text, err := open(t, "", Options{}).Bundle(); err != nil || len(certificates(t, text)) != 2 {
		t.Errorf("%v, %d certificates", err, len(certificates(t, text)))
	}
}

func TestWithoutSystemRootsThereIsNoBundle(t *testing.T) {
	underRoots(t, []byte("none\n"))
	dir := t.TempDir()
	if _, _, err := open(t, "", Options{}).WriteBundle(dir); err == nil || !strings.Contains(err.Error(), "ca-certificates") {
		t.Errorf("error: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("it wrote %v", left)
	}
}

func TestABundleIsWrittenBesideTheCA(t *testing.T) {
	underRoots(t, testRoots())
	dir := filepath.Join(t.TempDir(), "ca")
	c := open(t, dir, Options{})
	for range 2 {
		extraFile, bundleFile, err := c.WriteBundle(dir)
		if err != nil || extraFile != filepath.Join(dir, "extra.pem") || bundleFile != filepath.Join(dir, "bundle.pem") {
			t.Fatalf("%s %s %v", extraFile, bundleFile, err)
		}
		if _, err := os.Stat(storeFile(bundleFile)); err != nil {
			t.Error(err)
		}
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, one := range entries {
		left = append(left, one.Name())
	}
	if want := []string{"bundle.jks", "bundle.pem", "ca-key.pem", "ca.pem", "extra.pem", "php", "wgetrc", "wgetrc-proxy"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("the directory holds %v, %v", left, err)
	}
}

func TestJavasOwnToolReadsTheStore(t *testing.T) {
	underRoots(t, testRoots())
	c := open(t, "", Options{})
	_, bundleFile, err := c.WriteBundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, nil, "keytool", "-J-Duser.language=en", "-list", "-keystore", storeFile(bundleFile), "-storetype", "JKS", "-storepass", "changeit")
	if err != nil || !strings.Contains(out, "2 entries") || !strings.Contains(out, c.Fingerprint()) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run(t, nil, "keytool", "-list", "-keystore", storeFile(bundleFile), "-storepass", "another"); err == nil {
		t.Errorf("the digest is not checked: %s", out)
	}
}

// greeting serves, on loopback, a few bytes to whoever trusts the CA. The channel
// has what became of each connection.
func greeting(t *testing.T, c *CA, says string) (address string, outcomes <-chan error) {
	t.Helper()
	listener := listen(t)
	config, err := c.TLSConfig(listener.Addr().(*net.TCPAddr).IP.String())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 8)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(time.Minute))
			config := config.Clone()
			config.NextProtos = nil // no client here speaks h2 to this server
			secure := tls.Server(conn, config)
			_, err = secure.Write([]byte(says))
			if err == nil {
				_, _ = secure.Read(make([]byte, 1024)) // what is unread would reset the connection
			}
			secure.Close()
			ended <- err
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return listener.Addr().String(), ended
}

func TestCurlTrustsTheCAByItsEnvironment(t *testing.T) {
	underRoots(t, testRoots())
	c := open(t, "", Options{})
	caFile, bundleFile, err := c.WriteBundle(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	address, outcomes := greeting(t, c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
	if out, err := run(t, Env("", caFile, bundleFile), "curl", "-sS", "https://"+address); err != nil || out != "hi" {
		t.Errorf("%v: %s", err, out)
	}
	if err := <-outcomes; err != nil {
		t.Error(err)
	}
	for _, version := range []string{"1.2", "1.3"} {
		if out, err := run(t, nil, "curl", "-sS", "--tls-max", version, "https://"+address); err == nil {
			t.Errorf("without it, TLS %s: %s", version, out)
		}
		if err := <-outcomes; !Rejected(err) {
			t.Errorf("curl's alert in TLS %s is not noticed: %v", version, err)
		}
	}
}

const javaClient = `
public class Client {
	public static void main(String[] args) throws Exception {
		try (var socket = (javax.net.ssl.SSLSocket) javax.net.ssl.SSLSocketFactory.getDefault().createSocket(args[0], Integer.parseInt(args[1]))) {
			var parameters = socket.getSSLParameters();
			parameters.setEndpointIdentificationAlgorithm("HTTPS");
			socket.setSSLParameters(parameters);
			socket.startHandshake();
			System.out.println("trusted, byte " + socket.getInputStream().read());
		}
		System.out.println(System.getProperty("https.proxyHost") + " " + System.getProperty("https.proxyPort") + " " + System.getProperty("http.nonProxyHosts"));
	}
}
`

// The directory has a space in its name: the options must keep it together.
func TestAJavaProgramTrustsTheCAByItsEnvironment(t *testing.T) {
	underRoots(t, testRoots())
	c := open(t, "", Options{})
	caFile, bundleFile, err := c.WriteBundle(filepath.Join(t.TempDir(), "a b"))
	if err != nil {
		t.Fatal(err)
	}
	address, failures := greeting(t, c, "A")
	source := write(t, filepath.Join(t.TempDir(), "Client.java"), []byte(javaClient), 0o644)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JAVA_TOOL_OPTIONS", "-Duser.language=en")
	out, err := run(t, Env("http://name:hidden@127.0.0.1:3128", caFile, bundleFile), "java", source, host, port)
	if err != nil || !strings.Contains(out, "trusted, byte 65") || !strings.Contains(out, "127.0.0.1 3128 localhost|*.localhost|127.0.0.1|[::1]") {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Contains(out, "hidden") {
		t.Errorf("Java prints the password: %s", out)
	}
	if err := <-failures; err != nil {
		t.Error(err)
	}
	if out, err := run(t, nil, "java", source, host, port); err == nil || !strings.Contains(out, "PKIX") {
		t.Errorf("without it, %v: %s", err, out)
	}
	if err := <-failures; !Rejected(err) {
		t.Errorf("Java's alert is not noticed: %v", err)
	}
}
