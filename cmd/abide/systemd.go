package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// systemdTimeout bounds how long a message to systemd may take. The socket is on this
// machine, so only a systemd that hangs takes longer.
const systemdTimeout = time.Second

// systemd notifies the service manager of abide's state, by the protocol of sd_notify(3). A
// unit with Type=notify needs that. A nil systemd does nothing.
type systemd struct {
	address net.UnixAddr // of $NOTIFY_SOCKET; "@" at its start is an abstract socket
}

// systemdOf is nil when no service manager has set NOTIFY_SOCKET.
func systemdOf(getenv func(string) string) *systemd {
	name := getenv("NOTIFY_SOCKET")
	if name == "" || !strings.ContainsRune("/@", rune(name[0])) {
		return nil
	}
	return &systemd{address: net.UnixAddr{Name: name, Net: "unixgram"}}
}

// ready notifies that abide serves.
func (s *systemd) ready(status string) { s.send("READY=1", "STATUS="+status) }

// reloading notifies that the configuration is being read. A call of ready follows.
func (s *systemd) reloading() {
	s.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
}

// stopping notifies that abide ends and that this may take as long as drain, which may be
// longer than the unit's TimeoutStopSec.
func (s *systemd) stopping(status string, drain time.Duration) {
	s.send("STOPPING=1", "STATUS="+status, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (drain+adminDrain+5*time.Second).Microseconds()))
}

// send sends the lines as one datagram. abide serves whether or not the datagram arrives.
func (s *systemd) send(lines ...string) {
	if s == nil {
		return
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", " ")
	}
	conn, err := net.DialUnix("unixgram", nil, &s.address)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(systemdTimeout))
	_, _ = conn.Write([]byte(strings.Join(lines, "\n")))
}
