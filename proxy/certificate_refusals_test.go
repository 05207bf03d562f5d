package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// pinned is a TLS client that accepts only the site's own certificate.
func pinned(conn net.Conn) error {
	defer conn.Close()
	return tls.Client(conn, &tls.Config{ServerName: host, RootCAs: originRootsOnly()}).HandshakeContext(context.Background())
}

func TestAHostWhoseClientRefusesTheCertificatePassesUnreadFromThenOn(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	if pinned(b.connect(host+":443")) == nil {
		t.Fatal("it was trusted")
	}
	eventually(t, 5*time.Minute, "the line", func() bool {
		pinned(b.connect(host + ":443")) // the last of these may be tunnelled
		return strings.Contains(b.log.String(), "passes unread for 2 minutes, then abide tries again")
	})
	before := unreadCount(b, "refused")
	for range 3 {
		if err := pinned(b.connect(host + ":443")); err != nil {
			t.Errorf("the client is still refused its host: %v", err)
		}
	}
	if n := strings.Count(b.log.String(), "level=warning"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, b.log)
	}
	if n := unreadCount(b, "refused"); n != before+3 {
		t.Errorf("%d connections are counted as unread, and %d before the last three", n, before)
	}
	b.server.ForgetRejections()
	if pinned(b.connect(host+":443")) == nil {
		t.Error("it is not opened again although the refusals were forgotten")
	}
}

// TestARefusalIsTakenBackWhenTheClientAcceptsALaterConnection: a browser that ignores certificates refuses each host
// once, also where a rule needs its requests.
func TestARefusalIsTakenBackWhenTheClientAcceptsALaterConnection(t *testing.T) {
	for _, config := range []string{"intercept: all", "sites: [{host: api.test, limits: [{requests: 900, per: 1s}]}]"} {
		b := newTestProxy(t, config)
		refused := func(n int64) {
			t.Helper()
			eventually(t, 20*time.Second, fmt.Sprint(n, " refused handshakes"), func() bool { return b.server.Rejections() == n })
		}
		for range 2 {
			pinned(b.connect(host + ":443"))
		}
		refused(2)
		sendRaw(t, b.secure(b.connect(host+":443"), host, "http/1.1"), "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
		refused(0)
		pinned(b.connect(host + ":443"))
		refused(1)
	}
}

func TestAHostThatIsClosedThreeTimesWithoutAWordPassesUnread(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for i := range refusalsInRow {
		if n := unreadCount(b, "refused"); n != 0 {
			t.Fatalf("tunnelled after %d", i)
		}
		b.connect(host + ":443").Close()
	}
	eventually(t, 20*time.Second, "the tunnel", func() bool { return pinned(b.connect(host+":443")) == nil })
}

func TestMalformedRequestsAreNoRefusals(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	for range 2 * refusalsInRow {
		c := b.secure(b.connect(host+":443"), host, "http/1.1")
		fmt.Fprint(c, "NONSENSE\r\n\r\n")
		if _, err := readHead(bufio.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	b.secure(b.connect(host+":443"), host, "http/1.1").Close()
}

// unreadCount is the number of connections that passed unread for a reason.
func unreadCount(b *testProxy, reason string) (n uint64) {
	for _, one := range b.metrics.Sites() {
		one.Unread.Each(func(why string, connections uint64) {
			if why == reason {
				n += connections
			}
		})
	}
	return n
}

func TestTheUserNameOpenHasHTTPSOpened(t *testing.T) {
	connect := func(b *testProxy, user string) *tls.Conn {
		conn := b.dial()
		fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\nHost: %[1]s:443\r\n", host)
		if user != "" {
			fmt.Fprintf(conn, "Proxy-Authorization: Basic %s\r\n", base64.StdEncoding.EncodeToString([]byte(user)))
		}
		fmt.Fprint(conn, "\r\n")
		if head, err := readHead(bufio.NewReaderSize(byteReader{conn}, 16)); err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			t.Fatalf("%s: %q, %v", user, head, err)
		}
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host})
	}
	opened := func(b *testProxy, user string) bool {
		c := connect(b, user)
		defer c.Close()
		must(t, c.Handshake())
		ours := x509.NewCertPool()
		ours.AppendCertsFromPEM(b.ca.PEM())
		_, err := c.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{Roots: ours})
		return err == nil
	}
	b := newTestProxy(t)
	for user, want := range map[string]bool{"": false, "open:open": true, "open:": false, "other:open": false} {
		if got := opened(b, user); got != want {
			t.Errorf("%q: opened is %v", user, got)
		}
	}
	if opened(newTestProxy(t, "listen_open: off"), "open:open") {
		t.Error("it is opened although listen_open is off")
	}
	b = newTestProxy(t, "access: {clients: [{name: open, secret: open}, {name: all, secret: s, intercept: all}]}")
	if opened(b, "open:open") || !opened(b, "all:s") {
		t.Error("where clients have secrets, intercept: all of a client does not decide")
	}
	if n := unreadCount(b, "auto"); n != 1 || strings.Count(b.log.String(), "passes unread (intercept: auto)") != 1 {
		t.Errorf("%d connections are counted as unread:\n%s", n, b.log)
	}
}
