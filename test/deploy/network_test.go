//go:build linux

package deploy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for a machine that is busy; nothing here takes it otherwise.
const patience = 10 * time.Minute

// namespace is a network of its own, as each container has one.
type namespace struct {
	t    *testing.T
	name string
}

func newNamespace(t *testing.T, name string) *namespace {
	t.Helper()
	n := &namespace{t, fmt.Sprintf("abide-%d-%s", os.Getpid(), name)}
	tool(t, "ip", "netns", "add", n.name)
	t.Cleanup(func() { tool(t, "ip", "netns", "del", n.name) })
	tool(t, "ip", "-n", n.name, "link", "set", "lo", "up")
	return n
}

// join connects two networks by a cable between two of their interfaces.
func (n *namespace) join(device, address string, to *namespace, farDevice, farAddress string) {
	n.t.Helper()
	tool(n.t, "ip", "-n", n.name, "link", "add", device, "type", "veth", "peer", "name", farDevice, "netns", to.name)
	for _, end := range [][3]string{{n.name, device, address}, {to.name, farDevice, farAddress}} {
		tool(n.t, "ip", "-n", end[0], "address", "add", end[2]+"/24", "dev", end[1])
		tool(n.t, "ip", "-n", end[0], "link", "set", end[1], "up")
	}
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v: %s", name, args, err, out)
	}
}

// within runs f in the network, on a thread that ends with it.
func within[T any](n *namespace, f func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		var file *os.File
		if file, err = os.Open("/run/netns/" + n.name); err != nil {
			return
		}
		defer file.Close()
		if err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err == nil {
			result, err = f()
		}
	}()
	<-done
	return result, err
}

// listen opens a port in the network.
func (n *namespace) listen(address string) net.Listener {
	n.t.Helper()
	l, err := within(n, func() (net.Listener, error) { return net.Listen("tcp", address) })
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

func (n *namespace) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return within(n, func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, network, address) })
}

// client asks from the network.
func (n *namespace) client() *http.Client {
	transport := &http.Transport{DialContext: n.dial}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}
