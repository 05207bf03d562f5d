//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// shifted stands between abides and Redis and gives the server another clock: each run
// of abide's script is told the time to use, which is that of this machine plus an
// offset. The script takes it as its second argument, empty for the server's own.
type shifted struct {
	at       string
	offset   atomic.Int64 // nanoseconds
	to       atomic.Pointer[string]
	listener net.Listener

	mu    sync.Mutex
	open  map[net.Conn]bool // guarded by mu
	ended bool              // guarded by mu
	busy  sync.WaitGroup
}

// shiftedTo starts one that leads to a server. It ends with the bed.
func (b *bed) shiftedTo(ctx context.Context, to string) (*shifted, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &shifted{at: l.Addr().String(), listener: l, open: map[net.Conn]bool{}}
	s.to.Store(&to)
	s.busy.Go(s.accept)
	b.closers = append(b.closers, s.close)
	return s, nil
}

func (s *shifted) accept() {
	for {
		from, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.busy.Go(func() { _ = s.serve(from) }) // the ends of a connection need no report
	}
}

// keep remembers a connection, and tells whether it may be used.
func (s *shifted) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	return !s.ended
}

func (s *shifted) drop(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// lead has it lead to another server; the connections that are open end.
func (s *shifted) lead(to string) {
	s.to.Store(&to)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

func (s *shifted) close() {
	s.listener.Close()
	s.mu.Lock()
	s.ended = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.busy.Wait()
}

func (s *shifted) serve(from net.Conn) error {
	defer s.drop(from)
	if !s.keep(from) {
		return nil
	}
	to, err := net.Dial("tcp", *s.to.Load())
	if err != nil {
		return err
	}
	defer s.drop(to)
	if !s.keep(to) {
		return nil
	}
	var answers sync.WaitGroup
	defer answers.Wait()
	answers.Go(func() {
		_, _ = io.Copy(from, to)
		from.Close()
	})
	defer to.Close()
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	for {
		command, err := readCommand(in)
		if err != nil {
			return err
		}
		s.shift(command)
		if err := writeCommand(out, command); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// shift fills in the time of a run of the script.
func (s *shifted) shift(command []string) {
	if len(command) < 3 || !strings.EqualFold(command[0], "evalsha") && !strings.EqualFold(command[0], "eval") {
		return
	}
	keys, err := strconv.Atoi(command[2])
	if err != nil || keys < 0 || len(command) < 3+keys+2 {
		return
	}
	if passed := &command[3+keys+1]; *passed == "" {
		*passed = strconv.FormatInt(time.Now().Add(time.Duration(s.offset.Load())).UnixMicro(), 10)
	}
}

var errCommand = errors.New("this is no command of Redis")

// readCommand reads an array of texts.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readNumber(r, '*')
	if err != nil || n > 1<<20 {
		return nil, cmp.Or(err, errCommand)
	}
	list := make([]string, n)
	for i := range list {
		length, err := readNumber(r, '$')
		if err != nil || length > 64<<20 {
			return nil, cmp.Or(err, errCommand)
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		list[i] = string(text[:length])
	}
	return list, nil
}

func readNumber(r *bufio.Reader, mark byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || line[0] != mark || n < 0 {
		return 0, errCommand
	}
	return n, nil
}

func writeCommand(w io.Writer, list []string) error {
	if _, err := fmt.Fprintf(w, "*%d\r\n", len(list)); err != nil {
		return err
	}
	for _, text := range list {
		if _, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(text), text); err != nil {
			return err
		}
	}
	return nil
}
