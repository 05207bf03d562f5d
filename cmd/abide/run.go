package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// runDefaults are the settings with another default for a command that run starts: the
// command trusts the CA, so all its https can be opened, and its terminal is its own.
var runDefaults = map[string]string{
	"intercept": "all",
	"log.level": "warn",
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with the proxy started and set up for it",
		Long: `Run starts a proxy on a free port of 127.0.0.1, sets the variables that make
clients in any language use it and trust its CA, and runs the command. It ends
with the command, and with the command's status (128+n for signal n).

The configuration is the one that "abide serve" would have, except that listen
and admin.listen are free ports of 127.0.0.1 (listen is the same one in each run
in a directory, if it is free); "abide status" and "abide explain" find them
while the command runs (not with data: none). Where the configuration
does not say otherwise, all https is opened (intercept: all), so that its limits
are seen, and the log is at level warn.

While requests are held for 5 seconds or longer, a line on the terminal says
until when, and for which limit. Without a terminal the log says so, at most
once a minute: again when that time is over, and when the hold has lasted twice
as long. At the end a summary on standard error says how many requests
there were to how many sites, which refusals the command did not see, which
answers were errors, for how long requests were held and for which limits, and
which tokens were used and denied. When no request came through abide, it says
that instead. --quiet silences all this; --summary writes it as JSON to a file.

A NO_PROXY of one's own is kept as it is; without one, localhost, 127.0.0.1 and
::1 are reached without the proxy. HTTP_PROXY and the like are replaced. What
REQUESTS_CA_BUNDLE, SSL_CERT_FILE and the like name is trusted by the command as
before, and by the proxy.

Chromium reads no variable for certificates. With --browsers it finds the CA in
a home directory that run makes for the command inside yours: all that is in
yours is linked from there, and what the command makes in it is moved to yours
at the end. Programs that write down the path of their home find it gone then.`,
		Example: `  abide run -- scrapy crawl news
  abide run -- curl https://example.com/`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("the command is missing that shall run, such as abide run -- scrapy crawl news")
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&o.client, "client", "", "`name` of access.clients that the command is (default the first)")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print no line about held requests, no summary, and no warning that no request came")
	cmd.Flags().StringVar(&o.summary, "summary", "", "`file` that gets the summary as JSON")
	cmd.Flags().BoolVar(&o.fail, "fail", false, "exit with status 75 where the command succeeds although abide answered requests itself, or the command gave requests up, does not accept the CA or goes by abide")
	cmd.Flags().BoolVar(&o.browsers, "browsers", false, "have Chromium trust the CA, too: the command gets a home directory with links to all that is in yours (Linux)")
	// What follows the command is the command's, with or without "--".
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, o, args) }
	return cmd
}

// runOptions are the flags of "abide run" itself.
type runOptions struct {
	client, summary string
	quiet, fail     bool
	browsers        bool
}

func run(cmd *cobra.Command, o runOptions, args []string) error {
	caught := &childSignals{arrivals: arrivalsOf(append(slices.Clone(forwardedSignals), syscall.SIGPIPE))}
	defer caught.close()

	path, err := exec.LookPath(args[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if apart := detachedValue(cmd.Flags(), args); apart != nil && (err != nil || cmd.ArgsLenAtDash() > 0) {
		return apart
	}
	if err != nil {
		return notStarted(args[0], err)
	}
	if dir := filepath.Dir(o.summary); o.summary != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usage(fmt.Errorf("--summary: %s is no folder, so the summary could not be written at the end", dir))
		}
	}
	s, err := sourceOf(cmd)
	if err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "abide-run-")
	if err != nil {
		return fmt.Errorf("making a directory for the CA's files: %w; set TMPDIR to a directory that this user can write to, such as a tmpfs", err)
	}
	defer os.RemoveAll(files)
	var user *url.Userinfo
	var drain atomic.Int64
	s.defaults = runDefaults
	s.fit = func(p, written *policy.Policy) error {
		drain.Store(int64(min(written.Timeouts.Drain, heldDrain)))
		p.Open.Run = true
		now, err := credential(p, o.client)
		if err == nil && user != nil && (now == nil || *now != *user) {
			err = errors.New("it changes the name or secret of the command in access.clients, which takes a restart")
		}
		if err != nil {
			return err
		}
		user = now
		return trustAsCommand(p, files)
	}
	p, err := s.load()
	if err != nil {
		return err
	}
	if p.Log.Access == accesslog.Stdout {
		return usage(errors.New("log.access: stdout is the command's under abide run; name a file, with --log-access=FILE"))
	}
	console, errs := liveLineOf(cmd.ErrOrStderr())
	log := newLog(errs, p.Log)
	for _, one := range p.Warnings() {
		log.Warn(one)
	}
	warnOfProxyVariables(log, p)
	a, err := open(cmd.Context(), s, p, log)
	if err != nil {
		return err
	}
	a.proxy.ServeCommand()
	extraFile, bundleFile, err := a.ca.WriteBundle(files)
	if err != nil && interceptsAny(p) {
		a.close()
		return err
	}
	if err != nil {
		log.WithField("reason", err).Warnf("the variables that name certificates are not set: %v", err)
	}
	address := url.URL{Scheme: "http", User: user, Host: a.listener.Addr().String()}
	variables := ca.Env(address.String(), extraFile, bundleFile)
	if o.browsers {
		home, leave, err := browserHome(cmd.Context(), a.ca.PEM())
		if err != nil {
			a.close()
			return err
		}
		defer func() {
			if err := leave(); err != nil {
				fmt.Fprintln(errs, "abide:", err)
			}
		}()
		variables = append(variables, "HOME="+home)
	}
	env := childEnviron(os.Environ(), variables)

	ctx, stop := context.WithCancel(cmd.Context())
	end := a.background(ctx, "run "+filepath.Base(args[0]))

	var once sync.Once
	var settled map[string]uint64
	var stopped bool
	caught.ending = func(bySignal bool) {
		console.show("") // the command may write now
		once.Do(func() { settled, stopped = a.settled.all(), bySignal })
	}
	var holdsEnd time.Time
	caught.asked = func(now time.Time) {
		if _, held := a.proxy.Gate().Len(); held > 0 { // where nothing is held nothing ends: a shell goes on after Ctrl-C
			first := holdsEnd.Before(now)
			if holdsEnd = now; first {
				holdsEnd = now.Add(time.Duration(drain.Load()))
			}
			refused, waiting := a.proxy.Gate().EndHolds(holdsEnd)
			if first && !o.quiet {
				ends := "go or end within %v"
				if refused > 0 {
					ends = strconv.Itoa(refused) + " cannot go within %v and end now, the others go or end by then"
				}
				fmt.Fprintf(errs, "abide: asked to stop with %s held: "+ends+"; press Ctrl-C again to end all now\n", countText(refused+waiting, "request"), holdsEnd.Sub(now))
			}
		}
	}
	child := exec.CommandContext(ctx, path, args[1:]...)
	child.Args[0] = args[0]
	child.Env = env
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	began := time.Now()
	var reporting sync.WaitGroup
	if !o.quiet {
		reporting.Go(func() { a.reportHolds(ctx, console) })
	}
	ended := runChild(child, caught)
	took := time.Since(began)
	caught.ending(false)
	stop()
	reporting.Wait()
	end()
	err = statusOfChild(args[0], child, ended)
	if child.ProcessState == nil {
		return err
	}
	happened := a.summary(took, settled, stopped)
	if !o.quiet {
		happened.write(errs)
	}
	if o.summary != "" {
		if failed := writeWhole(o.summary, 0o644, happened.writeJSON); failed != nil {
			fmt.Fprintf(errs, "abide: the summary was not written: %v\n", failed)
			if err == nil {
				err = &exit{code: exitFailed}
			}
		}
	}
	if o.fail && err == nil && happened.gaveUp() {
		return &exit{code: 75} // EX_TEMPFAIL of sysexits.h: it succeeded without all answers
	}
	return err
}

// heldDrain bounds timeouts.drain for the requests that are held when the command is asked to stop: its threads wait for them.
const heldDrain = 10 * time.Second

// credential is the name and secret of a client, nil where clients have none.
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

// trustAsCommand makes the proxy trust what the command would trust without abide: besides
// egress.roots, the certificates that variables such as REQUESTS_CA_BUNDLE name. It writes
// them to one file in dir and names that file in p.
func trustAsCommand(p *policy.Policy, dir string) error {
	roots := ca.UserRoots(ca.Dir(p.Data))
	if len(roots) == 0 {
		return nil
	}
	if p.Egress.Roots != "" {
		configured, err := policy.ReadFile(p.Egress.Roots, maxFile)
		if err != nil {
			return fmt.Errorf("reading egress.roots: %w", err)
		}
		roots = slices.Concat(configured, []byte("\n"), roots)
	}
	p.Egress.Roots = filepath.Join(dir, "trusted.pem")
	if err := os.WriteFile(p.Egress.Roots, roots, 0o600); err != nil {
		return fmt.Errorf("writing the certificates that the command trusts: %w", err)
	}
	return nil
}

// childEnviron is environ with the variables that make clients use the proxy, and without those
// of abide's own settings that have secrets.
func childEnviron(environ, proxied []string) []string {
	ours := map[string]bool{"ALL_PROXY": true, "all_proxy": true, yamlVariable: true}
	for _, key := range policy.Keys() {
		if key.Secret {
			ours[key.Env], ours[key.Env+"_FILE"] = true, true
		}
	}
	for _, one := range proxied {
		name, _, _ := strings.Cut(one, "=")
		ours[name] = true
	}
	return append(slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return ours[name]
	}), proxied...)
}

// Exit statuses of a shell for a command that cannot be started.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

func notStarted(name string, err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	if why, ok := errors.AsType[*exec.Error](err); ok {
		err = why.Err
	}
	return &exit{code: code, err: fmt.Errorf("running %s: %w", name, err)}
}

// statusOfChild is the exit status of a command that has ended.
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
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// endingTime is the time before the end of a command in which it closes its connections.
const endingTime = time.Second

// runChild starts a command and waits for its end.
func runChild(child *exec.Cmd, caught *childSignals) error {
	group := groupFor(child)
	started, ended, err := group.endWithAbide()
	if err != nil {
		return fmt.Errorf("starting the process that ends the command if abide is killed: %w", err)
	}
	defer ended()
	if err := child.Start(); err != nil {
		return err
	}
	started(child.Process.Pid)
	caught.forward(child.Process, group)
	return child.Wait()
}

const (
	// holdShown is the time that a request of the command must have waited, or is known to wait, to be reported.
	holdShown = 5 * time.Second
	// holdLookEvery is the time between two looks at the requests that wait.
	holdLookEvery = time.Second
)

// waitingSite is a site that holds requests of the command.
type waitingSite struct {
	dispatch.SiteWaiting
	until string // text: until when, and for which limit
}

// holdReport decides what run prints while requests of its command are held. It reads no
// clock.
type holdReport struct {
	terminal bool      // output is a terminal with a status line
	since    time.Time // requests are held since then; zero: none is
	said     time.Time // without a terminal: time of the last line
	until    time.Time // the end that it named, zero for none
}

// update returns the status line for a terminal, or without a terminal a line for the log;
// "" for none.
func (h *holdReport) update(now time.Time, waiting []waitingSite) string {
	long := lists.Only(waiting, func(w waitingSite) bool { return max(now.Sub(w.Since), w.Until.Sub(w.Since)) >= holdShown })
	if len(long) == 0 {
		h.since = time.Time{}
		return ""
	}
	first := slices.MinFunc(long, func(a, b waitingSite) int { return a.Since.Compare(b.Since) })
	h.since = cmp.Or(h.since, first.Since)
	text := fmt.Sprintf("abide holds %s to %s%s", countText(first.Held, "request"), first.Site, first.until)
	if len(long) > 1 {
		text += fmt.Sprintf("; and to %s", countText(len(long)-1, "other site"))
	}
	switch {
	case h.terminal && len(long) == 1 && first.Held == 1 && !first.Until.IsZero() && first.Until.Sub(now) <= holdLookEvery:
		return "" // erased before the command continues and writes after it
	case h.terminal:
		return text
	case !sitelog.Outdated(now, h.since, h.said, h.until):
		return ""
	}
	last := first.Last()
	if !last.IsZero() && last.Sub(now) < holdLookEvery {
		return "" // all go before anybody reads it
	}
	h.said, h.until = now, first.Until
	if first.Held > 1 {
		text = sitelog.WithLast(text, now, last)
	}
	return text
}

// reportHolds reports held requests until ctx is done: in the terminal's status line, or in
// the log, unless the log has lines about them anyway.
func (a *program) reportHolds(ctx context.Context, t *liveLine) {
	if t == nil && a.log.IsLevelEnabled(logrus.InfoLevel) {
		return
	}
	report := holdReport{terminal: t != nil}
	for now := range clock.Ticks(ctx, holdLookEvery) {
		text := report.update(now, a.waitingSites(now))
		switch {
		case t != nil:
			t.show(text)
		case text != "":
			a.log.Warn(text)
		}
	}
	t.show("")
}
