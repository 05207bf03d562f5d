package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// originOrders say which certificate the origin shows.
type originOrders struct{ Certificate, Key string }

// originAddress is where the origin listens: for cleartext and for TLS.
type originAddress struct{ Plain, Secure string }

// originQuestion asks for the counts; Release answers all requests held first.
type originQuestion struct{ Release bool }

// counts are what has arrived at the origin since it started.
type counts struct {
	Requests int64
	Conns    int64
	Held     int64 // unanswered now
}

func (c counts) since(before counts) counts {
	return counts{Requests: c.Requests - before.Requests, Conns: c.Conns - before.Conns, Held: c.Held}
}

// origin is the site behind every proxy. GET /N answers N bytes, GET /hold
// answers one when released. It speaks just enough HTTP/1.1 to cost little.
type origin struct {
	requests, conns, held atomic.Int64
	body                  []byte // what bodies are cut from

	mu      sync.Mutex
	release chan struct{} // closed when what is held may go
}

func originRole(in *json.Decoder, out *json.Encoder) error {
	var orders originOrders
	if err := in.Decode(&orders); err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(orders.Certificate, orders.Key)
	if err != nil {
		return fmt.Errorf("loading the origin's certificate: %w", err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o := &origin{body: bytes.Repeat([]byte("abide\n\x00\xff"), 32<<10), release: make(chan struct{})}
	go o.serve(plain)
	go o.serve(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	if err := out.Encode(originAddress{plain.Addr().String(), secure.Addr().String()}); err != nil {
		return err
	}
	for {
		var q originQuestion
		if err := in.Decode(&q); err != nil {
			return err // the bench has ended, and so does this process with all its connections
		}
		if q.Release {
			o.mu.Lock()
			close(o.release)
			o.release = make(chan struct{})
			o.mu.Unlock()
		}
		if err := out.Encode(counts{o.requests.Load(), o.conns.Load(), o.held.Load()}); err != nil {
			return err
		}
	}
}

func (o *origin) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		o.conns.Add(1)
		go o.talk(conn)
	}
}

// talk answers the requests of one connection until it closes or is told to.
func (o *origin) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 0, 2048)
	out := make([]byte, 0, 2048)
	for {
		head, rest, err := readHead(conn, buf)
		if err != nil {
			return
		}
		path, last := parseRequest(head)
		buf = append(buf[:0], rest...)
		size, err := strconv.ParseInt(string(path), 10, 64)
		switch {
		case string(path) == "hold":
			o.hold()
			size = 1
		case err != nil || size < 0:
			_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		o.requests.Add(1)
		if out, err = o.answer(conn, out[:0], size, last); err != nil || last {
			return
		}
	}
}

// hold waits for the release. The process ends with the bench, so this ends.
func (o *origin) hold() {
	o.mu.Lock()
	release := o.release
	o.mu.Unlock()
	o.held.Add(1)
	<-release
	o.held.Add(-1)
}

// answer writes head and body, in one write where the body is small.
func (o *origin) answer(w io.Writer, out []byte, size int64, last bool) ([]byte, error) {
	out = append(out, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\nDate: "...)
	out = time.Now().UTC().AppendFormat(out, "Mon, 02 Jan 2006 15:04:05 GMT")
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, size, 10)
	if last {
		out = append(out, "\r\nConnection: close"...)
	}
	out = append(out, "\r\n\r\n"...)
	if size <= 64<<10 {
		out = append(out, o.body[:size]...)
		size = 0
	}
	_, err := w.Write(out)
	for size > 0 && err == nil {
		n := min(size, int64(len(o.body)))
		_, err = w.Write(o.body[:n])
		size -= n
	}
	return out, err
}

// readHead reads up to the empty line; rest is what came after it. buf holds
// what has been read already.
func readHead(r io.Reader, buf []byte) (head, rest []byte, err error) {
	for {
		if at := bytes.Index(buf, []byte("\r\n\r\n")); at >= 0 {
			return buf[:at+2], buf[at+4:], nil
		}
		if len(buf) == cap(buf) {
			if len(buf) >= 64<<10 {
				return nil, nil, fmt.Errorf("a request head of more than 64 KiB")
			}
			buf = append(buf, make([]byte, len(buf)+1)...)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		if err != nil && n == 0 {
			return nil, nil, err
		}
		buf = buf[:len(buf)+n]
	}
}

// parseRequest gives the path without its slash, and whether the connection
// ends with the answer.
func parseRequest(head []byte) (path []byte, last bool) {
	line, fields, _ := bytes.Cut(head, []byte("\r\n"))
	_, target, _ := bytes.Cut(line, []byte(" "))
	path, version, _ := bytes.Cut(target, []byte(" "))
	last = string(version) != "HTTP/1.1"
	for len(fields) > 0 {
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		if len(line) > 11 && line[0]|0x20 == 'c' && bytes.EqualFold(line[:11], []byte("connection:")) {
			value := bytes.ToLower(line[11:])
			last = bytes.Contains(value, []byte("close")) || last && !bytes.Contains(value, []byte("keep-alive"))
		}
	}
	return bytes.TrimPrefix(path, []byte("/")), last
}
