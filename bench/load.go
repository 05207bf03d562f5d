package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// load is the generator: raw keep-alive loops, one goroutine a connection.
type load struct {
	job    job
	tls    *tls.Config // nil without Roots
	until  time.Time
	next   atomic.Int64 // the number of the next connection, with Count
	conns  atomic.Int64
	failed atomic.Bool

	mu    sync.Mutex
	fault error
	held  []*client
}

func loadRole(in *json.Decoder, out *json.Encoder) error {
	var held []*client
	for {
		var j job
		if err := in.Decode(&j); err != nil {
			return err
		}
		l := &load{job: j, held: held}
		if err := out.Encode(l.do()); err != nil {
			return err
		}
		held = l.held
	}
}

// do runs the job to its end.
func (l *load) do() outcome {
	switch {
	case l.job.Finish:
		return l.finish()
	case l.job.Drop:
		for _, c := range l.held {
			c.close()
		}
		l.held = nil
		return outcome{}
	}
	if l.job.Roots != "" {
		text, err := os.ReadFile(l.job.Roots)
		if err != nil {
			return outcome{Fault: err.Error()}
		}
		l.tls = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		l.tls.RootCAs.AppendCertsFromPEM(text)
	}
	clients := make([]*client, max(1, l.job.Conns))
	started := time.Now()
	l.until = started.Add(l.job.For)
	var wg sync.WaitGroup
	for i := range clients {
		clients[i] = &client{load: l, number: i}
		wg.Go(func() {
			if err := clients[i].work(); err != nil {
				l.fail(err)
			}
		})
	}
	wg.Wait()
	return l.sum(clients, time.Since(started))
}

// fail keeps the first fault and ends the job: figures of a job that went
// wrong are worth nothing.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.fault = err
	}
	l.failed.Store(true)
}

func (l *load) sum(clients []*client, took time.Duration) outcome {
	out := outcome{Took: took, Conns: l.conns.Load()}
	var times []time.Duration
	for _, c := range clients {
		out.Requests += c.requests
		out.Bytes += c.bytes
		times = append(times, c.times...)
	}
	if len(times) > 0 {
		slices.Sort(times)
		out.P50 = times[len(times)/2]
		out.P99 = times[len(times)*99/100]
	}
	if l.fault != nil {
		out.Fault = l.fault.Error()
	}
	return out
}

// finish reads the answers of all clients that an earlier job left waiting.
func (l *load) finish() outcome {
	clients := l.held
	l.held = nil
	started := time.Now()
	late := started.Add(20 * time.Second) // for all of them
	for _, c := range clients {
		_ = c.conn.SetDeadline(late)
		c.scratch = make([]byte, 16)
		c.load = l
		if err := c.receive(1); err != nil {
			l.fail(fmt.Errorf("a held request: %w", err))
		}
		c.close()
	}
	return l.sum(clients, time.Since(started))
}

// client is one connection of the generator, or one after the other.
type client struct {
	load    *load
	number  int
	conn    net.Conn
	in      *bufio.Reader
	scratch []byte
	answers int // on this connection

	requests, bytes int64
	times           []time.Duration
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// work does what one client has to do for a job. However short the job and slow the machine, each
// client has one answer at least.
func (c *client) work() error {
	j := &c.load.job
	if j.Count > 0 {
		return c.workByCount()
	}
	defer c.close()
	c.scratch = make([]byte, min(max(j.Size, 16), 256<<10))
	c.times = make([]time.Duration, 0, 1<<12)
	request := j.request(c.number)
	for !c.load.failed.Load() {
		if c.conn == nil {
			if err := c.open(c.number); err != nil {
				return err
			}
		}
		sent := time.Now()
		if sent.After(c.load.until) && c.requests > 0 {
			return nil
		}
		switch err := c.exchange(request, j.Size); {
		case errors.Is(err, errStale):
			c.close() // and again, on a new connection
		case err != nil:
			return err
		default:
			c.times = append(c.times, time.Since(sent))
		}
	}
	return nil
}

// errStale is a connection that was closed between two requests, which its
// closer need not announce; tinyproxy does so after every answer.
var errStale = errors.New("closed while idle")

// exchange sends the request and receives its answer.
func (c *client) exchange(request []byte, size int64) error {
	_, err := c.conn.Write(request)
	if err == nil {
		_, err = c.in.Peek(1)
	}
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case closed && c.answers > 0:
		return errStale
	case err != nil:
		return err
	}
	return c.receive(size)
}

// workByCount takes the next connection's number until there is none left.
func (c *client) workByCount() error {
	j := &c.load.job
	c.scratch = make([]byte, min(max(j.Size, 16), 256<<10))
	for !c.load.failed.Load() {
		i := int(c.load.next.Add(1)) - 1
		if i >= j.Count {
			return nil
		}
		started := time.Now()
		if err := c.open(i); err != nil {
			return err
		}
		if _, err := c.conn.Write(j.request(i)); err != nil {
			return err
		}
		if j.Hold {
			c.load.keep(&client{conn: c.conn, in: c.in})
			c.conn = nil
			continue
		}
		err := c.receive(j.Size)
		c.times = append(c.times, time.Since(started))
		c.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *load) keep(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, c)
}

// open connects, through a tunnel and TLS where the job says so.
func (c *client) open(i int) error {
	j := &c.load.job
	conn, err := net.DialTimeout("tcp", j.Dial, 10*time.Second)
	if err != nil {
		return err
	}
	c.load.conns.Add(1)
	// One deadline for the connection's life: a proxy that hangs must not hang
	// the bench, and setting it anew for each request would be measured.
	if err := conn.SetDeadline(time.Now().Add(j.For + time.Minute)); err != nil {
		return err
	}
	size := 4 << 10
	if j.Hold {
		size = 1 << 10 // there are ten thousand of them
	}
	c.answers = 0
	c.conn, c.in = conn, bufio.NewReaderSize(conn, size)
	if j.Way == connect {
		name := j.name(i)
		if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", name, name); err != nil {
			return err
		}
		a, err := readAnswer(c.in)
		if err != nil {
			return fmt.Errorf("CONNECT: %w", err)
		}
		if a.status != 200 {
			return fmt.Errorf("CONNECT was answered %d", a.status)
		}
		if c.in.Buffered() > 0 {
			return fmt.Errorf("CONNECT: %d bytes came before any were due", c.in.Buffered())
		}
	}
	if c.load.tls != nil {
		config := c.load.tls.Clone()
		config.ServerName, _, err = net.SplitHostPort(j.name(i))
		if err != nil {
			return err
		}
		inner := tls.Client(conn, config)
		if err := inner.Handshake(); err != nil {
			return fmt.Errorf("TLS handshake: %w", err)
		}
		c.conn, c.in = inner, bufio.NewReaderSize(inner, size)
	}
	return nil
}

// receive reads one answer and insists that it is what was asked for.
func (c *client) receive(size int64) error {
	a, err := readAnswer(c.in)
	if err != nil {
		return err
	}
	n, err := a.readBody(c.in, c.scratch)
	switch {
	case err != nil:
		return fmt.Errorf("inside a body: %w", err)
	case a.status != 200:
		return fmt.Errorf("answered %d", a.status)
	case n != size:
		return fmt.Errorf("%d bytes instead of %d", n, size)
	}
	c.requests++
	c.answers++
	c.bytes += n
	if a.last {
		c.close()
	}
	return nil
}
