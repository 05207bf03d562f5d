//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// kind is how hosts behave.
type kind struct {
	name, title string
	connect     bool // clients ask for a tunnel
	part        int  // of the hosts of a run, one in so many is asked; 0: all
	forgets     bool // abide has no data directory
	answer      func(w http.ResponseWriter)
}

var kinds = []kind{
	{name: "plain", title: "plain requests; the hosts announce nothing", answer: func(http.ResponseWriter) {}},
	{name: "connect", title: "tunnels; the hosts announce nothing", connect: true, part: 5, answer: func(http.ResponseWriter) {}},
	{name: "announced", title: "plain requests; each host announces a limit of 60 per minute", part: 5, answer: func(w http.ResponseWriter) {
		h := w.Header()
		h.Set("RateLimit-Policy", "60;w=60")
		h.Set("RateLimit-Limit", "60")
		h.Set("RateLimit-Remaining", "59")
		h.Set("RateLimit-Reset", "60")
	}},
	{name: "refusing", title: "plain requests; each host refuses the first for 6 hours", answer: refuse},
	{name: "refusing-without-data", title: "the same without a data directory", part: 5, forgets: true, answer: refuse},
}

// refuse is an answer that holds for longer than a run takes.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "21600")
	w.WriteHeader(http.StatusTooManyRequests)
}

// mostHosts is how many addresses there are.
const mostHosts = 1 << 23

// address is the one of a host, 127.1.0.0 and on.
func address(host int) string {
	host += 1 << 16
	return fmt.Sprintf("127.%d.%d.%d", byte(host>>16), byte(host>>8), byte(host))
}

// listen starts an origin that answers at every address of the loopback network, and
// at no other.
func listen(ctx context.Context, k kind) (port int, end func(), err error) {
	only := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.BindToDevice(int(fd), "lo") })
		if err != nil {
			return err
		}
		return failed
	}}
	l, err := only.Listen(ctx, "tcp4", "0.0.0.0:0")
	if err != nil {
		return 0, nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		k.answer(w)
		_, _ = w.Write([]byte("a page\n"))
	})}
	go func() { _ = server.Serve(l) }() // ends with end
	return l.Addr().(*net.TCPAddr).Port, func() { _ = server.Close() }, nil
}
