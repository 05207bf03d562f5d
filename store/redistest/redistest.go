// Package redistest runs real Redis servers for tests, on loopback, in a directory
// that is removed with the test, without data on the disk.
//
//	server := redistest.Start(t)
//	s, err := store.NewRedis(&policy.Store{Hosts: []string{server.Addr}}, nil)
package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// patience bounds steps that ought to take milliseconds.
const patience = 5 * time.Minute

// Server is one redis-server. It ends with the test at the latest.
type Server struct {
	Addr   string // host:port
	Socket string // a Unix socket, beside the port

	t    testing.TB
	dir  string
	args []string

	mu      sync.Mutex
	process *os.Process   // nil: does not run
	ended   chan struct{} // closed when it has
}

// Start starts a server; args are more of its arguments, as "--requirepass", "x". The
// test fails when there is no redis-server on this machine.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, nil, args)
}

// start takes the content of its configuration file, or nil for none.
func start(t testing.TB, config func(port string) string, args []string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("there is no redis-server in $PATH: install it (apt-get install redis-server); these tests run against a real one")
	}
	logging.Disable() // tests of outages would fill the output with it
	// Not t.TempDir: its paths may be too long for a socket.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var wrong error
	for range 5 { // a port that was free may be taken by the time that it is used
		port := freePort(t)
		s := &Server{t: t, dir: dir, Addr: "127.0.0.1:" + port, Socket: filepath.Join(dir, "s")}
		s.args = []string{path}
		if config != nil {
			name := filepath.Join(dir, "conf")
			if err := os.WriteFile(name, []byte(config(port)), 0o600); err != nil {
				t.Fatal(err)
			}
			s.args = append(s.args, name, "--sentinel")
		} else {
			s.args = append(s.args, "--save", "", "--appendonly", "no", "--unixsocket", s.Socket,
				"--repl-diskless-sync-delay", "0", "--repl-diskless-load", "on-empty-db")
		}
		s.args = append(s.args, "--port", port, "--bind", "127.0.0.1", "--dir", dir)
		for _, a := range args {
			s.args = append(s.args, strings.ReplaceAll(a, "{port}", port))
		}
		if wrong = s.run(); wrong == nil {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatalf("starting redis-server: %v", wrong)
	return nil
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// run starts the process and waits until it is ready.
func (s *Server) run() error {
	command := exec.Command(s.args[0], s.args[1:]...)
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	var text bytes.Buffer // until it is ready
	go func() {
		defer close(ended)
		lines, waits := bufio.NewScanner(out), true
		for lines.Scan() {
			if !waits {
				continue
			}
			fmt.Fprintln(&text, lines.Text())
			if strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "+monitor master") {
				waits = false
				close(ready)
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = command.Wait()
	}()
	select {
	case <-ready:
	case <-ended:
		return fmt.Errorf("it ended: %s", text.String())
	case <-time.After(patience):
		_ = command.Process.Kill()
		<-ended
		return fmt.Errorf("it is not ready after %v: %s", patience, text.String())
	}
	s.mu.Lock()
	s.process, s.ended = command.Process, ended
	s.mu.Unlock()
	return nil
}

// Kill ends it at once, as a machine that fails. It returns when it has ended.
func (s *Server) Kill() {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.process = nil
	s.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Kill()
	<-ended
}

// Restart starts it again, empty, on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatalf("starting redis-server again: %v", err)
	}
}

// Do runs one command, as "SET", "a", "b"; it fails the test when that does.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	v, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("redis: %v: %v", args[0], err)
	}
	return v
}

// Try is Do that returns the error.
func (s *Server) Try(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// By the socket, which needs no TLS; Sentinels have the port only.
	o := &redis.Options{Network: "unix", Addr: s.Socket, MaxRetries: -1, DisableIdentity: true}
	if _, err := os.Stat(s.Socket); err != nil {
		o.Network, o.Addr = "tcp", s.Addr
	}
	client := redis.NewClient(o)
	defer client.Close()
	return client.Do(ctx, args...).Result()
}

// Until waits until a command's answer, as text, has a part; it fails the test when
// that takes too long.
func (s *Server) Until(part string, args ...any) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		v, err := s.Try(args...)
		if err == nil && strings.Contains(fmt.Sprint(v), part) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("redis: %v does not answer %q after %v: %v, %v", args, part, patience, v, err)
		}
	}
}

// ReplicaOf makes it a replica, and waits until it has what its master has.
func (s *Server) ReplicaOf(master *Server) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	s.Do("REPLICAOF", host, port)
	s.Until("master_link_status:up", "INFO", "replication")
}

// Promote makes it a master again.
func (s *Server) Promote() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// Sentinel starts one Sentinel that watches a master under a name and alone decides
// that it has failed, half a second after it has.
func Sentinel(t testing.TB, master *Server, name string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	return start(t, func(string) string {
		return fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\n"+
			"sentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", name, host, port)
	}, nil)
}

// Cluster starts a Cluster of that many masters, and waits until it answers.
func Cluster(t testing.TB, masters int) []*Server {
	t.Helper()
	const slots = 16384
	nodes := make([]*Server, masters)
	buses := make([]string, masters)
	for i := range nodes {
		buses[i] = freePort(t)
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", buses[i], "--cluster-node-timeout", "2000", "--enable-debug-command", "yes")
		nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for i, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		nodes[0].Do("CLUSTER", "MEET", host, port, buses[i+1])
	}
	for _, node := range nodes {
		node.Until("cluster_known_nodes:"+strconv.Itoa(masters), "CLUSTER", "INFO")
		node.Until("cluster_state:ok", "CLUSTER", "INFO")
	}
	return nodes
}
