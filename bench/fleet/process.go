//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that this one has started and will end: by its own process,
// never by name.
type process struct {
	name string
	args []string
	said *output

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func newProcess(name string, args ...string) *process {
	return &process{name: name, args: args, said: &output{}}
}

// start starts it, or starts it again after it has ended.
func (p *process) start() error {
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = p.said, p.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing is left behind, whatever becomes of us
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		if !strings.HasSuffix(strings.ToLower(key), "_proxy") && !strings.HasPrefix(key, "ABIDE_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() { // ends with the process, which kill waits for
		defer close(done)
		_ = cmd.Wait() // how it ended says nothing: we end what we start
	}()
	return nil
}

func (p *process) now() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

// alive tells whether it still runs.
func (p *process) alive() bool {
	cmd, done := p.now()
	if cmd == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	cmd, _ := p.now()
	if cmd == nil {
		return errors.New(p.name + " was not started")
	}
	return cmd.Process.Signal(s)
}

// kill ends it at once, and waits until it has gone.
func (p *process) kill() {
	cmd, done := p.now()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it may have ended before
	<-done
}

// listens waits until it accepts connections on address.
func (p *process) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, done := p.now()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended before it listened; it said: %s", p.name, p.said.end())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w; it said: %s", p.name, errors.Join(ctx.Err(), err), p.said.end())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// worked is the processor time that it has used.
func (p *process) worked() time.Duration {
	cmd, _ := p.now()
	if cmd == nil {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// output is what a process has said. Safe for concurrent use.
type output struct {
	mu    sync.Mutex
	text  []byte // the end of it
	lines int
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines += bytes.Count(p, []byte{'\n'})
	o.text = append(o.text, p...)
	if over := len(o.text) - 20000; over > 0 {
		o.text = append(o.text[:0], o.text[over:]...)
	}
	return len(p), nil
}

func (o *output) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines
}

func (o *output) end() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.text))
}
