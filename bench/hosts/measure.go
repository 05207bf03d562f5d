//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// point is how much abide used when it had seen so many hosts.
type point struct {
	Hosts    int
	Idle     time.Duration // since the last request
	Resident int64
	Metrics  int64 // bytes of one scrape
	Data     int64 // bytes of its data directory
	Took     time.Duration
}

type result struct {
	kind
	Points []point
	CPU    time.Duration
}

// steps is how often a run is looked at while hosts are asked, and while it idles.
const (
	steps     = 10
	idleSteps = 4
)

func (s settings) measure(ctx context.Context, dir string, k kind) (r result, err error) {
	r.kind = k
	s.hosts = max(s.hosts/max(k.part, 1), 1)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	port, end, err := listen(ctx, k)
	if err != nil {
		return r, err
	}
	defer end()
	a, err := s.start(ctx, dir, port, k)
	if err != nil {
		return r, err
	}
	defer a.Stop()
	began := time.Now()
	look := func(hosts int, idle time.Duration) error {
		p, err := a.look()
		if err != nil {
			return err
		}
		p.Hosts, p.Idle, p.Took = hosts, idle, time.Since(began)
		r.Points = append(r.Points, p)
		fmt.Fprintf(os.Stderr, "hosts: %s: %d hosts, idle for %v: %s resident, a scrape of %s, %s of data, after %v\n",
			k.name, hosts, idle, mebibytes(p.Resident), mebibytes(p.Metrics), mebibytes(p.Data), p.Took.Round(time.Second))
		return nil
	}
	if err := look(0, 0); err != nil {
		return r, err
	}
	for step := range steps {
		from, to := s.hosts*step/steps, s.hosts*(step+1)/steps
		if err := a.ask(ctx, k, port, from, to, s.conns); err != nil {
			return r, err
		}
		if err := look(to, 0); err != nil {
			return r, err
		}
	}
	for step := range idleSteps {
		if err := process.Pause(ctx, s.idle/idleSteps); err != nil {
			return r, err
		}
		if err := look(s.hosts, s.idle*time.Duration(step+1)/idleSteps); err != nil {
			return r, err
		}
	}
	used, err := process.UsageOf(a.ID())
	r.CPU = used.CPU
	return r, err
}

// abide is the program that is measured.
type abide struct {
	*process.Process
	at, admin, data string
}

// start runs the binary with its defaults: only where it listens is written, and for
// tunnels that the origin's port may be reached.
func (s settings) start(ctx context.Context, dir string, port int, k kind) (*abide, error) {
	a := &abide{data: filepath.Join(dir, "data")}
	var err error
	if a.at, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	if a.admin, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	kept := a.data
	if k.forgets {
		kept = "none"
	}
	config := fmt.Sprintf("listen: %s\nadmin: {listen: %s}\ndata: %s\negress: {ports: [443, %d]}\n", a.at, a.admin, kept, port)
	file := filepath.Join(dir, "abide.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	a.Process = process.New("abide", s.abide, "serve", "--config", file)
	a.Prepare = func(cmd *exec.Cmd) error {
		cmd.Dir = dir
		return nil
	}
	if err := a.StartAt(ctx, a.at); err != nil {
		return nil, err
	}
	return a, a.Listens(ctx, a.admin)
}

// look reads what it uses now.
func (a *abide) look() (point, error) {
	p := point{}
	used, err := process.UsageOf(a.ID())
	if err != nil {
		return p, fmt.Errorf("%w%s", err, a.Said)
	}
	p.Resident = used.Resident
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	answer, err := client.Get("http://" + a.admin + "/metrics")
	if err != nil {
		return p, err
	}
	defer func() { _ = answer.Body.Close() }()
	if p.Metrics, err = io.Copy(io.Discard, answer.Body); err != nil {
		return p, err
	}
	err = filepath.Walk(a.data, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			p.Data += info.Size()
		}
		return nil // a file may leave while it is looked at
	})
	return p, err
}

// ask has hosts asked once each.
func (a *abide) ask(ctx context.Context, k kind, port, from, to, conns int) error {
	var next atomic.Int64
	next.Store(int64(from))
	failed := make(chan error, conns)
	var running sync.WaitGroup
	for range conns {
		running.Go(func() {
			c := client{proxy: a.at, connect: k.connect}
			defer c.close()
			for ctx.Err() == nil {
				host := int(next.Add(1)) - 1
				if host >= to {
					return
				}
				if err := c.ask(fmt.Sprintf("%s:%d", address(host), port)); err != nil {
					failed <- fmt.Errorf("host %d: %w", host, err)
					return
				}
			}
		})
	}
	running.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	return ctx.Err()
}

// client asks over one connection, or over one tunnel for each host.
type client struct {
	proxy   string
	connect bool
	conn    net.Conn
	in      *bufio.Reader
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *client) ask(host string) error {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.proxy, 20*time.Second)
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if !c.connect {
		// One that is refused waits no longer than a moment.
		status, last, err := c.exchange("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nAbide-Max-Wait: 1s\r\n\r\n")
		if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
			err = fmt.Errorf("answered %d", status)
		}
		if last {
			c.close()
		}
		return err
	}
	defer c.close()
	if _, err := io.WriteString(c.conn, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	for more := line; err == nil && strings.TrimSpace(more) != ""; {
		more, err = c.in.ReadString('\n')
	}
	if err != nil || !strings.Contains(line, " 200") {
		return fmt.Errorf("CONNECT was answered %q: %w", line, err)
	}
	_, _, err = c.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	return err
}

func (c *client) exchange(request string) (status int, last bool, err error) {
	if _, err := io.WriteString(c.conn, request); err != nil {
		return 0, true, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, true, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Close, err
}
