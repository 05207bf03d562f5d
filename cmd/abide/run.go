package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/policy"
)

// runDrain is what is left to finish once the command has ended: only what it
// has left behind still asks.
const runDrain = time.Second

// What a shell shows for a command that it cannot start.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

func runCommand() *cobra.Command {
	var client string
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with the proxy started and set up for it",
		Long: `Run starts a proxy on a free port of 127.0.0.1, sets the variables that make
clients in any language use it and trust its CA, and runs the command. It ends
with the command, and with the command's status (128+n for signal n).

The configuration is the one that "abide serve" would have, except that listen
is the free port, there is no admin listener, and the log is at level warn
unless --log-level or ABIDE_LOG_LEVEL say otherwise.

A NO_PROXY of one's own is kept as it is; without one, localhost, 127.0.0.1 and
::1 are reached without the proxy. HTTP_PROXY and the like are replaced.`,
		Example: `  abide run -- scrapy crawl news
  abide run --intercept all -- curl https://example.com/`,
		Args: arguments(cobra.MinimumNArgs(1)),
	}
	cmd.Flags().StringVar(&client, "client", "", "`name` of access.clients that the command is (default the first)")
	// What follows the command is the command's, with or without "--".
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, client, args) }
	return cmd
}

func run(cmd *cobra.Command, client string, args []string) error {
	caught := catchForChild()
	defer caught.close()

	path, err := find(args[0])
	if err != nil {
		return err
	}
	s, err := sourceOf(cmd)
	if err != nil {
		return err
	}
	p, err := s.load()
	if err != nil {
		return err
	}
	own := *p
	own.Listen, own.Admin.Listen = "127.0.0.1:0", ""
	own.Timeouts.Drain = min(own.Timeouts.Drain, runDrain)
	if s.flags["log.level"] == "" && os.Getenv("ABIDE_LOG_LEVEL") == "" {
		own.Log.Level = logrus.WarnLevel.String()
	}
	user, err := credential(&own, client)
	if err != nil {
		return err
	}
	log := newLog(cmd.ErrOrStderr(), own.Log)
	for _, one := range own.Warnings() {
		log.Warn(one)
	}
	warnOfProxyVariables(log, &own)

	a, err := open(nil, &own, log)
	if err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "abide-run-")
	if err != nil {
		a.close()
		return fmt.Errorf("making a directory for the CA's files: %w", err)
	}
	defer os.RemoveAll(files)
	caFile, bundleFile, err := a.ca.WriteBundle(files)
	if err != nil && interceptsAny(&own) {
		a.close()
		return err
	}
	if err != nil {
		log.Warnf("the variables that name certificates are not set: %v", err)
	}
	address := url.URL{Scheme: "http", User: user, Host: a.listener.Addr().String()}
	env := childEnviron(os.Environ(), ca.Env(address.String(), caFile, bundleFile))

	ctx, stop := context.WithCancel(cmd.Context())
	served := make(chan error, 1)
	go func() { served <- a.Run(ctx, nil) }()

	child := exec.CommandContext(ctx, path, args[1:]...)
	child.Args[0] = args[0]
	child.Env = env
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	ended := child.Start()
	if ended == nil {
		caught.forward(child.Process)
		ended = child.Wait()
	}
	stop()
	if err := <-served; err != nil {
		log.Error(err)
	}
	return statusOfChild(args[0], child, ended)
}

// find looks the command up before anything is started for it.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", notStarted(name, err)
}

func notStarted(name string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var why *exec.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	return &exit{code: code, err: fmt.Errorf("running %s: %w", name, err)}
}

// statusOfChild passes on how the command ended.
func statusOfChild(name string, child *exec.Cmd, err error) error {
	state := child.ProcessState
	if state == nil {
		return notStarted(name, err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exit{code: statusOf(status.Signal())}
	}
	if code := state.ExitCode(); code != 0 {
		return &exit{code: code}
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// credential is who the command is to the proxy, where clients must say so.
func credential(p *policy.Policy, client string) (*url.Userinfo, error) {
	for _, one := range p.Access.Clients {
		if client == "" || client == one.Name {
			return url.UserPassword(one.Name, one.Secret.Reveal()), nil
		}
	}
	if client != "" {
		return nil, usage(fmt.Errorf("--client: access.clients has no %q", client))
	}
	return nil, nil
}

// childEnviron is environ with what makes clients use the proxy. What somebody
// reaches without a proxy stays so, in both spellings.
func childEnviron(environ, proxied []string) []string {
	direct, kept := "", map[string]bool{}
	for _, one := range environ {
		if name, value, _ := strings.Cut(one, "="); name == "NO_PROXY" || name == "no_proxy" {
			direct, kept[name] = value, true
		}
	}
	ours := map[string]bool{"ALL_PROXY": true, "all_proxy": true}
	var added []string
	for _, one := range proxied {
		name, _, _ := strings.Cut(one, "=")
		if kept[name] {
			continue
		}
		if len(kept) > 0 && (name == "NO_PROXY" || name == "no_proxy") {
			one = name + "=" + direct
		}
		ours[name] = true
		added = append(added, one)
	}
	var env []string
	for _, one := range environ {
		if name, _, _ := strings.Cut(one, "="); !ours[name] {
			env = append(env, one)
		}
	}
	return append(env, added...)
}

// childSignals passes signals on to a command.
type childSignals struct {
	arriving chan os.Signal
	closing  chan struct{}
	running  sync.WaitGroup
}

// catchForChild takes the signals from now on; until forward they wait.
func catchForChild() *childSignals {
	s := &childSignals{arriving: make(chan os.Signal, 16), closing: make(chan struct{})}
	signal.Notify(s.arriving, append(slices.Clone(passed), syscall.SIGPIPE)...)
	return s
}

func (s *childSignals) forward(child *os.Process) {
	s.running.Go(func() {
		for {
			select {
			case <-s.closing:
				return
			case sig := <-s.arriving:
				// The terminal has given it to the command already: twice would
				// make Scrapy, for one, stop without finishing.
				if sig != syscall.SIGPIPE && !fromTerminal(sig) {
					_ = child.Signal(sig) // it may have ended
				}
			}
		}
	})
}

// close ends the passing on. The signals stay caught, so that abide ends with
// the command's status whatever arrives meanwhile.
func (s *childSignals) close() {
	close(s.closing)
	s.running.Wait()
}
