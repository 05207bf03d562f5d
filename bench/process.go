package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that the bench started and will end: by its own
// process, never by name.
type process struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	said   *tail         // the end of what it wrote to standard error, for faults
}

// newProcess prepares a program on the given cores; empty means any.
func newProcess(ctx context.Context, name, cores, program string, args ...string) *process {
	ctx, cancel := context.WithCancel(ctx)
	if cores != "" {
		args = append([]string{"-c", cores, program}, args...)
		program = "taskset"
	}
	p := &process{name: name, cancel: cancel, done: make(chan struct{}), said: &tail{}}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 3 * time.Second // then it is killed
	p.cmd.Stderr = p.said
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		// A proxy of the machine, or a setting of abide, would be measured too.
		if !strings.HasSuffix(strings.ToLower(key), "_proxy") && !strings.HasPrefix(key, "ABIDE_") {
			p.cmd.Env = append(p.cmd.Env, pair)
		}
	}
	return p
}

func (p *process) start() error {
	if err := p.cmd.Start(); err != nil {
		p.cancel()
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() { // ends with the process, which stop waits for
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended says nothing: the bench ends what it starts
	}()
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process and waits until it has gone.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

// listens waits until the process accepts connections on address.
func (p *process) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it listened%s", p.name, p.said)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w%s", p.name, errors.Join(ctx.Err(), err), p.said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// tail keeps the end of what is written to it. Safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 2000; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String is ready to be appended to an error.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return "; it said: " + text
	}
	return ""
}
