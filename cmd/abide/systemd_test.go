//go:build linux

package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServeTellsSystemdWhenItIsReadyReloadsAndStops(t *testing.T) {
	for _, kind := range []string{"a socket file", "an abstract socket"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			socket := filepath.Join(dir, "notify")
			if kind == "an abstract socket" {
				socket = "@abide-test-" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)
			}
			messages := notifySocket(t, socket)
			config := filepath.Join(dir, "abide.yaml")
			write(t, config, "data: none\ntimeouts: {drain: 2m}\n")
			d := serveIn(t, dir, []string{"NOTIFY_SOCKET=" + socket}, "--config", config)

			expectMessage(t, messages, "READY=1", "STATUS=serving on "+d.proxy)

			d.signal(syscall.SIGHUP)
			reloading := expectMessage(t, messages, "RELOADING=1", "MONOTONIC_USEC=")
			if strings.Contains(reloading, "MONOTONIC_USEC=0") {
				t.Errorf("the time of the reload is missing: %q", reloading)
			}
			expectMessage(t, messages, "READY=1", "STATUS=serving on ")

			write(t, config, "data: none\nlisten: 17\nno_such_key: 1\n")
			expectMessage(t, messages, "RELOADING=1")
			refused := expectMessage(t, messages, "READY=1", "STATUS=the configuration was not reloaded")
			if lines := strings.Split(refused, "\n"); len(lines) != 2 {
				t.Errorf("an error of several lines makes more than one status: %q", refused)
			}

			d.signal(syscall.SIGTERM)
			expectMessage(t, messages, "STOPPING=1", "STATUS=stopping", "EXTEND_TIMEOUT_USEC=127000000")
			if code := d.status(); code != 0 {
				t.Errorf("abide ended with %d", code)
			}
		})
	}
}

func TestServeStartsWhenNobodyListensOnTheNotifySocket(t *testing.T) {
	dir := t.TempDir()
	d := serveIn(t, dir, []string{"NOTIFY_SOCKET=" + filepath.Join(dir, "nobody")}, "--data", "none")
	d.signal(syscall.SIGTERM)
	if code := d.status(); code != 0 {
		t.Errorf("abide ended with %d", code)
	}
}

// notifySocket listens as systemd does. The channel gets each datagram.
func notifySocket(t *testing.T, name string) <-chan string {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	messages := make(chan string, 100)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		buffer := make([]byte, 64<<10)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			messages <- string(buffer[:n])
		}
	}()
	t.Cleanup(func() {
		socket.Close()
		<-closed
	})
	return messages
}

// expectMessage requires that the next message has a line with each prefix, in
// this order and from its first line on.
func expectMessage(t *testing.T, messages <-chan string, prefixes ...string) string {
	t.Helper()
	select {
	case message := <-messages:
		lines := strings.Split(message, "\n")
		for i, prefix := range prefixes {
			if i >= len(lines) || !strings.HasPrefix(lines[i], prefix) {
				t.Fatalf("systemd was told %q, and line %d should begin with %q", message, i+1, prefix)
			}
		}
		return message
	case <-time.After(patience):
		t.Fatalf("systemd was told nothing, %q expected", prefixes)
		return ""
	}
}
