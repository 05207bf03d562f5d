package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestAConnectToAPortThatIsNotAllowedIsLoggedOnce(t *testing.T) {
	b := newTestProxy(t, "egress: {ports: [443]}")
	for range 3 {
		conn := b.dial()
		fmt.Fprintf(conn, "CONNECT %s:6379 HTTP/1.1\r\nHost: %s:6379\r\nConnection: close\r\n\r\n", host, host)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 403" {
			t.Errorf("%s, %v", answer, err)
		}
		conn.Close()
	}
	want := "CONNECT to " + host + ":6379 is refused, since egress.ports does not name port 6379; add it there, or start abide with ABIDE_EGRESS_PORTS=443,6379"
	if n := strings.Count(b.log.String(), want); n != 1 {
		t.Errorf("%d lines:\n%s", n, b.log)
	}
	if all, refused := b.server.Connects(); all != 3 || refused != 3 {
		t.Errorf("%d CONNECTs, %d to refused ports", all, refused)
	}
}
