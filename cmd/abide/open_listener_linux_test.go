package main

import (
	"net"
	"strings"
	"testing"
)

// All of 127.0.0.0/8 is this machine on Linux, so the ports of an address there belong
// to this test alone.
func TestADefaultOpenListenerThatIsTakenIsSaidAndNoError(t *testing.T) {
	other, err := net.Listen("tcp", "127.83.12.7:3129")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dir := t.TempDir()
	d := launch(t, dir, []string{newOrigin(t).named()}, "serve", "--listen", "127.83.12.7:3128", "--admin", "127.0.0.1:0")
	d.log.await(t, `there is no listener that opens all https: listen_open: 127\.83\.12\.7:3129 is in use`)
	d.out.await(t, `open +none, 127\.83\.12\.7:3129 is in use \(listen_open\)`)
	env := d.out.await(t, `eval "\$\(.*\)"`)[0]
	// A user name says the same where there is one port.
	if got, err := shell(dir, env+"\necho $HTTPS_PROXY; curl -q -sS http://api.test/"); err != nil || !strings.HasPrefix(got, "http://open:open@127.83.12.7:3128\n") || !strings.HasSuffix(got, "from the origin") {
		t.Errorf("%v: %s", err, got)
	}
}
