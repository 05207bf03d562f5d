// Package process runs the programs that a measurement needs, and ends them: each by
// its own process, never by name.
package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that this one starts and ends. It may be started again after
// it has ended. Its methods are safe for concurrent use.
type Process struct {
	Name string
	Said *Said // what it wrote last, for faults

	// Prepare, unless nil, is called before each start.
	Prepare func(*exec.Cmd) error

	args []string

	mu   sync.Mutex
	cmd  *exec.Cmd     // guarded by mu, as below; nil before the first start
	end  func()        // asks it to end, and has it killed if it does not
	done chan struct{} // closed when it has ended
}

// New prepares a program, which is the first of args.
func New(name string, args ...string) *Process {
	return &Process{Name: name, Said: &Said{}, args: args}
}

// On has it run on the given cores alone; empty means any.
func (p *Process) On(cores string) *Process {
	if cores != "" {
		p.args = append([]string{"taskset", "-c", cores}, p.args...)
	}
	return p
}

// patience is how long a program may take to end before it is killed.
const patience = 3 * time.Second

// Start starts it. It ends with the context at the latest, and with this program
// whatever becomes of that.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	tie(cmd)
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		// A proxy of the machine, or a setting of abide, would be measured too.
		if !strings.HasSuffix(strings.ToLower(key), "_proxy") && !strings.HasPrefix(key, "ABIDE_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	if p.Prepare != nil {
		if err := p.Prepare(cmd); err != nil {
			cancel()
			return fmt.Errorf("starting %s: %w", p.Name, err)
		}
	}
	cmd.Stderr = p.Said
	if cmd.Stdout == nil {
		cmd.Stdout = p.Said
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.end, p.done = cmd, cancel, done
	p.mu.Unlock()
	go func() { // ends with the process, which Stop and Kill wait for
		defer close(done)
		defer cancel()
		_ = cmd.Wait() // how it ended says nothing: we end what we start
	}()
	return nil
}

// StartAt is Start, and waits until it accepts connections on address. What does
// not is ended.
func (p *Process) StartAt(ctx context.Context, address string) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.Listens(ctx, address); err != nil {
		p.Stop()
		return err
	}
	return nil
}

func (p *Process) now() (cmd *exec.Cmd, end func(), done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.end, p.done
}

// End asks it to end, and does not wait until it has.
func (p *Process) End() {
	if _, end, _ := p.now(); end != nil {
		end()
	}
}

// Stop is End, and waits until it has gone.
func (p *Process) Stop() {
	if _, end, done := p.now(); end != nil {
		end()
		<-done
	}
}

// Kill ends it at once, and waits until it has gone.
func (p *Process) Kill() {
	cmd, _, done := p.now()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it may have ended before
	<-done
}

// Signal sends it a signal.
func (p *Process) Signal(s syscall.Signal) error {
	cmd, _, _ := p.now()
	if cmd == nil {
		return errors.New(p.Name + " was not started")
	}
	return cmd.Process.Signal(s)
}

// ID is its number; 0 before its first start.
func (p *Process) ID() int {
	cmd, _, _ := p.now()
	if cmd == nil {
		return 0
	}
	return cmd.Process.Pid
}

// Alive tells whether it runs.
func (p *Process) Alive() bool {
	cmd, _, done := p.now()
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

// Listens waits until it accepts connections on address.
func (p *Process) Listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, _, done := p.now()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended before it listened%s", p.Name, p.Said)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w%s", p.Name, errors.Join(ctx.Err(), err), p.Said)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// FreeAddress is a loopback address that was free a moment ago, as was the next port, on which
// abide opens all https. Both are below the ports that systems choose by themselves, so that no
// other program gets them meanwhile.
func FreeAddress() (string, error) {
	const lowest, count = 10_000, 20_000
	var err error
	for range 100 {
		port := lowest + rand.IntN(count)
		var l, next net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			continue
		}
		if next, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1))); err != nil {
			_ = l.Close()
			continue
		}
		return l.Addr().String(), errors.Join(l.Close(), next.Close())
	}
	return "", fmt.Errorf("looking for a free port: %w", err)
}

// Build builds a program of the module at root.
func Build(ctx context.Context, root, to string, args ...string) error {
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", to}, args...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", args[len(args)-1], err, strings.TrimSpace(string(out)))
	}
	return nil
}
