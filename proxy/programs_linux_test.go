package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheProgramAtTheOtherEndIsFound: by IPv4, by IPv6, and by IPv4 from a socket for both.
func TestTheProgramAtTheOtherEndIsFound(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	want := filepath.Base(self)
	want = want[:min(len(want), maxProgramName)] + "-"
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		must(t, err)
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		from, to := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
		if got := localProgram(from, to); !strings.HasPrefix(got, want) || got != localProgram(from, to) {
			t.Errorf("%s: %q, not %s…", address, got, want)
		}
		c.Close()
		if got := localProgram(from, to); got != "" {
			t.Errorf("%s: a socket that is closed belongs to %q", address, got)
		}
	}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(netip.MustParseAddr("127.0.0.1").As16()), 3128)
	if got := addressIn("/proc/net/tcp6", mapped); got != "0000000000000000FFFF00000100007F:0C38" {
		t.Errorf("an address for both is %s", got)
	}
	if got := addressIn("/proc/net/tcp", mapped); got != "0100007F:0C38" {
		t.Errorf("an address of IPv4 is %s", got)
	}
}

func TestProgramsAreToldApartByWhatTheyTrust(t *testing.T) {
	name := func(env []string, args ...string) string {
		c := exec.Command("sleep", args...)
		c.Env = append([]string{}, env...) // none is not this process's
		must(t, c.Start())
		defer func() {
			c.Process.Kill()
			c.Wait()
		}()
		process := fmt.Sprint("/proc/", c.Process.Pid)
		eventually(t, time.Minute, "the begin of the program", func() bool {
			arguments, _ := os.ReadFile(process + "/cmdline")
			return len(arguments) > 0
		})
		return programOf(process)
	}
	alone := name(nil, "1000")
	if !strings.HasPrefix(alone, "sleep-") && !strings.HasPrefix(alone, "coreutils-") && !strings.HasPrefix(alone, "busybox-") {
		t.Errorf("sleep is called %q", alone)
	}
	for what, other := range map[string]string{
		"with another number":        name(nil, "2000"),
		"with some other variable":   name([]string{"PAGE=x"}, "1000"),
		"with one that trusts no CA": name([]string{"SSL_CERTIFICATES=x"}, "1000"),
	} {
		if other != alone {
			t.Errorf("the same program %s is another: %s, %s", what, alone, other)
		}
	}
	for what, other := range map[string]string{
		"that names a CA":      name([]string{"SSL_CERT_FILE=/ca.pem"}, "1000"),
		"of another user":      name([]string{"HOME=/home/other"}, "1000"),
		"with other arguments": name(nil, "1000s"),
	} {
		if other == alone {
			t.Errorf("a program %s is the same", what)
		}
	}
}
