package proxy

import (
	"errors"
	"net"
	"strings"
	"time"
)

// cleartextPeek is for how long a CONNECT to port 80 waits for the client's first bytes. A
// client that waits for the server to speak first gets a tunnel.
const cleartextPeek = 2 * time.Second

// peek returns the client's first bytes without consuming them, none if the client waits for
// the server.
func peek(conn *clientConn) ([]byte, error) {
	if len(conn.pending) > 0 {
		return conn.pending, nil
	}
	conn.SetReadDeadline(time.Now().Add(cleartextPeek))
	defer conn.SetReadDeadline(time.Time{})
	first := make([]byte, 1024)
	n, err := conn.Read(first)
	var timeout net.Error
	if n == 0 && errors.As(err, &timeout) && timeout.Timeout() {
		return nil, nil
	}
	if n == 0 {
		return nil, err
	}
	conn.pending = first[:n]
	return first[:n], nil
}

// methodLetters are the letters of a method. Lower case counts: a request with the method
// get is HTTP, and is refused rather than tunnelled.
const methodLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

// looksLikeHTTP recognises a request line by its first word, of which only a part may have
// come.
func looksLikeHTTP(b []byte) bool {
	method, _, _ := strings.Cut(string(b[:min(len(b), 24)]), " ")
	return method != "" && strings.Trim(method, methodLetters) == ""
}
