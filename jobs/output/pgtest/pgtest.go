// Package pgtest runs a real PostgreSQL for tests, on loopback, in a directory that goes with
// the server.
//
//	server, err := pgtest.Start()
//	defer server.Close()
//	url := server.Database(t)
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
)

// Server is one PostgreSQL.
type Server struct {
	bin, dir, port string
	made           atomic.Int64
}

// Start makes and starts a server.
func Start() (*Server, error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		return nil, errors.New("there is no PostgreSQL in /usr/lib/postgresql: install it (apt-get install postgresql); these tests run against a real one")
	}
	s := &Server{bin: slices.Max(bins)}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	var err error
	for range 5 { // a port that was free may be taken by the time that it is used
		if s.port, err = freePort(); err == nil {
			if err = s.Restart(); err == nil {
				return s, nil
			}
		}
	}
	return nil, errors.Join(err, os.RemoveAll(s.dir))
}

// prepare makes the data in a directory of which the user of the server can reach all parents.
func (s *Server) prepare() error {
	var errs []error
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		dir, err := os.MkdirTemp(parent, "postgres")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.dir = dir
		if err = s.own(); err == nil {
			err = s.run("initdb", "-D", s.data(), "-U", "abide", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// own gives the directory to the user of the server, which cannot be root.
func (s *Server) own() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	return os.Chown(s.dir, uid, -1)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// run runs a program of PostgreSQL until it ends.
func (s *Server) run(name string, args ...string) error {
	args = append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Geteuid() == 0 {
		args = append([]string{"setpriv", "--reuid=nobody", "--clear-groups", "--"}, args...)
	}
	command := exec.Command(args[0], args[1:]...)
	command.Dir = s.dir
	// A file: a pipe would be held open by the server.
	out, err := os.Create(filepath.Join(s.dir, "out"))
	if err != nil {
		return err
	}
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	if err := command.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(text))
	}
	return nil
}

// Restart starts the server, also after Stop, with the same data on the same port.
func (s *Server) Restart() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-t", "600", "-l", filepath.Join(s.data(), "log"), "-o",
		"-p "+s.port+" -c listen_addresses=127.0.0.1 -c unix_socket_directories="+s.dir+" -c fsync=off -c max_connections=60", "start")
}

// Stop stops the server at once, as a machine that fails.
func (s *Server) Stop() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-t", "600", "-m", "immediate", "stop")
}

// Close ends the server, and removes its directory.
func (s *Server) Close() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }

// Database makes a database, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	url, err := s.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// NewDatabase makes a database, and returns its URL.
func (s *Server) NewDatabase() (string, error) {
	name := fmt.Sprintf("test%d", s.made.Add(1))
	err := s.run("createdb", "-h", "127.0.0.1", "-p", s.port, "-U", "abide", name)
	return "postgres://abide@127.0.0.1:" + s.port + "/" + name, err
}
