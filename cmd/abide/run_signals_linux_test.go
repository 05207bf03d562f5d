package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { commands["count-signals"] = countSignals }

// countSignals is a command that goes on after a first signal, as Scrapy does, and counts
// how many it gets. SIGUSR1 has it say so and end. A shell would not do: one that gets a
// signal just before it reads waits for input with the trap still to be run.
func countSignals() {
	arriving := make(chan os.Signal, 16)
	signal.Notify(arriving, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	fmt.Println("ready in", unix.Getpgrp())
	count := map[os.Signal]int{}
	for sig := range arriving {
		if sig == syscall.SIGUSR1 {
			fmt.Printf("counted %d TERM and %d INT\n", count[syscall.SIGTERM], count[syscall.SIGINT])
			os.Exit(7)
		}
		count[sig]++
		fmt.Println("got", strings.TrimPrefix(unix.SignalName(sig.(syscall.Signal)), "SIG"))
	}
}

// counterIn is abide with that command, as the leader of a session of its own.
func counterIn(t *testing.T, attributes *syscall.SysProcAttr, streams func(*exec.Cmd, *transcript)) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{t: t, ended: make(chan struct{})}
	d.out, d.log = newTranscript(d.ended), newTranscript(d.ended)
	d.cmd = exec.Command("abide", "run", "--data", "none", "--", "count-signals")
	d.cmd.Dir, d.cmd.Env = dir, environ(dir)
	d.cmd.SysProcAttr = attributes
	streams(d.cmd, d.out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		if group := regexp.MustCompile(`ready in (\d+)`).FindStringSubmatch(d.out.String()); group != nil {
			id, _ := strconv.Atoi(group[1])
			_ = syscall.Kill(-id, syscall.SIGKILL) // the command counts the signal by which it should end
		}
		<-d.ended
		if t.Failed() {
			t.Logf("it wrote:\n%s\nlog:\n%s", d.out, d.log)
		}
	})
	return d
}

// piped has input that stays open and empty.
func piped(t *testing.T) func(*exec.Cmd, *transcript) {
	read, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); hold.Close() })
	return func(cmd *exec.Cmd, out *transcript) { cmd.Stdin, cmd.Stdout, cmd.Stderr = read, out, os.Stderr }
}

func TestASignalToTheWholeGroupReachesTheCommandOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := counterIn(t, &syscall.SysProcAttr{Setsid: true}, piped(t))
		go func() { _ = d.cmd.Wait(); close(d.ended) }()
		d.out.await(t, "ready in")
		if err := syscall.Kill(-d.cmd.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
		d.out.await(t, "got "+name)
		d.signal(syscall.SIGUSR1) // after whatever is still to be passed on
		counted := d.out.await(t, "counted .*")[0]
		want := map[string]string{"TERM": "counted 1 TERM and 0 INT", "INT": "counted 0 TERM and 1 INT"}[name]
		if got := d.status(); got != 7 || counted != want {
			t.Errorf("%s: it %s and ended with %d", name, counted, got)
		}
	}
}

func TestARepeatedSignalIsPassedOnOnceUnlessItComesLater(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	seen := repeats{}
	for i, c := range []struct {
		sig   os.Signal
		after time.Duration
		again bool
	}{
		{syscall.SIGTERM, 0, false},
		{syscall.SIGTERM, time.Millisecond, true},
		{syscall.SIGINT, time.Millisecond, false},
		{syscall.SIGTERM, time.Second, false},
		{syscall.SIGUSR1, time.Second, false},
		{syscall.SIGUSR1, time.Second, false},
	} {
		if got := seen.again(c.sig, now.Add(c.after)); got != c.again {
			t.Errorf("%d: %v after %v: %v", i, c.sig, c.after, got)
		}
	}
}

func TestTheCommandEndsWithAnAbideThatIsKilled(t *testing.T) {
	d := launch(t, t.TempDir(), nil, "run", "--data", "none", "--", "sh", "-c", "sleep 1; echo ready; while :; do read line || exec tail -f /dev/null; done")
	d.out.await(t, "ready") // a moment after its start, when abide has told the process that watches abide which command it is
	d.signal(syscall.SIGKILL)
	d.status() // which waits for the end of the output, so for the command
}

// TestAnAbideThatIsKilledSendsItsCommandOneSignal: Scrapy loses its queue by a second one.
func TestAnAbideThatIsKilledSendsItsCommandOneSignal(t *testing.T) {
	for range 5 {
		d := counterIn(t, &syscall.SysProcAttr{Setsid: true}, piped(t))
		go func() { _ = d.cmd.Wait(); close(d.ended) }()
		group, err := strconv.Atoi(strings.Fields(d.out.await(t, `ready in \d+`)[0])[2])
		if err != nil {
			t.Fatal(err)
		}
		d.signal(syscall.SIGKILL)
		d.out.await(t, "got TERM")
		_ = syscall.Kill(-group, syscall.SIGUSR1)
		if counted := d.out.await(t, "counted .*? INT")[0]; counted != "counted 1 TERM and 0 INT" {
			t.Errorf("it %s", counted)
		}
	}
}

// terminals are the two ends of a new pseudo terminal.
func terminals(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, tty
}

// atTerminal is abide in the foreground of a terminal. What its test types goes to master.
func atTerminal(t *testing.T) (d *daemon, master *os.File) {
	t.Helper()
	master, tty := terminals(t)
	d = counterIn(t, &syscall.SysProcAttr{Setsid: true, Setctty: true}, func(cmd *exec.Cmd, out *transcript) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	})
	tty.Close()
	go func() {
		text := make([]byte, 4096)
		for {
			n, err := master.Read(text)
			if err != nil { // nobody has the other end any more
				return
			}
			_, _ = d.out.Write(text[:n])
		}
	}()
	return d, master
}

func typed(t *testing.T, master *os.File, text string) {
	t.Helper()
	if _, err := master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestCtrlCAndASignalToAbideReachTheCommandOnceAtATerminal(t *testing.T) {
	d, master := atTerminal(t)
	go func() { _ = d.cmd.Wait(); close(d.ended) }()
	d.out.await(t, "ready in")
	typed(t, master, "\x03") // Ctrl-C
	d.out.await(t, "got INT")
	d.signal(syscall.SIGTERM) // which nobody but abide gets
	d.out.await(t, "got TERM")
	d.signal(syscall.SIGUSR1)
	if counted := d.out.await(t, "counted .*? INT")[0]; counted != "counted 1 TERM and 1 INT" {
		t.Errorf("it %s", counted)
	}
	if got := d.status(); got != 7 {
		t.Errorf("it ended with %d", got)
	}
}
