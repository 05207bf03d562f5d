package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
)

// reloadRefused begins the error of a reload that was refused.
const reloadRefused = "the configuration was not reloaded and the last good one stays: "

var errStopping = errors.New("abide is stopping")

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the running proxy read its configuration again",
		Long: `Reload asks the running proxy to read its configuration file again, and prints
what has changed. Where the file has faults, it prints each with its file and
line and ends with 2; the proxy goes on with the last good configuration. It
ends with 1 when no proxy runs. It finds the proxy as abide status does, those
of "abide run" included. A file of --config or $ABIDE_CONFIG that cannot be read
says no address, so --admin has to. What cannot be read twice, such as
$ABIDE_CONFIG_YAML, stays as it was.

The proxy also reads the file when it changes, and on SIGHUP.`,
		Example: `  abide reload
  abide reload --admin 127.0.0.1:9128`,
		RunE: askReload,
	}
}

func askReload(cmd *cobra.Command, _ []string) error {
	list, api, err := findRunning(cmd)
	if err != nil {
		return err
	}
	if s, err := sourceOf(cmd); err == nil && api.guessed && !s.found {
		return usage(fmt.Errorf("nothing was reloaded: %w, so the address of its abide is not known; mend the file, or say the address with --admin", api.unread))
	}
	api.warnGuessed(cmd, list)
	var faults policy.Faults
	for _, one := range list {
		failed := reloadOne(cmd, one)
		if found, refused := failed.(policy.Faults); refused { // several abides may read the same file
			faults = append(faults, slices.DeleteFunc(found, func(f policy.Fault) bool { return slices.Contains(faults, f) })...)
			failed = nil
		}
		err = errors.Join(err, failed)
	}
	switch {
	case len(faults) == 0:
		return err
	case err == nil:
		return faults // without a prefix
	}
	return errors.Join(err, faults)
}

// reloadOne reloads one abide and prints the result.
func reloadOne(cmd *cobra.Command, at abideAt) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), reloadPatience)
	defer cancel()
	var said struct {
		Reloaded bool
		Changes  []string
	}
	_, err := at.ask(ctx, http.MethodPost, "reload", nil, &said)
	if refused, ok := errors.AsType[*problem](err); ok && refused.status == http.StatusUnprocessableEntity {
		text := fmt.Sprintf("the proxy at %s did not reload and keeps its last good configuration:", at.Admin)
		if len(refused.Faults) == 0 {
			return usage(errors.New(text + " " + strings.TrimPrefix(refused.Detail, reloadRefused)))
		}
		fmt.Fprintln(cmd.ErrOrStderr(), text)
		return policy.Faults(lists.Map(refused.Faults, func(fault status.Fault) policy.Fault {
			return policy.Fault{Source: status.Line(fault.File), Line: fault.Line, Key: status.Line(fault.Key), Text: status.Line(fault.Text)}
		}))
	}
	if err != nil {
		return at.hint(err)
	}
	if len(said.Changes) == 0 {
		said.Changes = []string{"nothing has changed"}
	}
	lines := append([]string{at.title() + ":"}, lists.Map(said.Changes, status.Line)...)
	_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\nreloaded: "))
	return err
}

// follow reloads the configuration when asked to, or when the file has changed or what it names and is used without a
// restart: tokens, and the certificates of listeners. It ends when ctx is done.
func (a *program) follow(ctx context.Context, asked <-chan struct{}) {
	var file watch
	changed := func() bool {
		found := a.source.rereadable() && file.changed([]string{a.source.path}) && a.source.changed()
		return a.secrets.changed(secretFiles(a.policy.Load())) || found
	}
	found := changed() || a.source.changed() // since the start
	wait := lookEvery
	for {
		if found {
			_, _ = a.reload() // the log has the error
			found = false
		}
		select {
		case <-ctx.Done():
			return
		case <-asked:
			_, _ = adminProcess{a}.Reload() // the log has the error
		case now := <-time.After(wait):
			found = changed()
			wait = max(lookEvery, lookShare*time.Since(now))
		}
	}
}

// secretFiles lists the files and directories that a policy names and that are used without a restart; "" is none.
func secretFiles(p *policy.Policy) []string {
	paths := []string{p.TLS.Cert, p.TLS.Key, p.Admin.TLS.Cert, p.Admin.TLS.Key}
	for i := range p.Pools {
		paths = append(paths, p.Pools[i].File, p.Pools[i].Dir)
	}
	return paths
}

// Reload reads the configuration again, as an operator asked for. It also forgets which clients
// refused the CA, because they may trust it now.
func (a adminProcess) Reload() (changes []string, err error) {
	a.proxy.ForgetRejections()
	return a.reload()
}

// reload reads the configuration and applies it, and returns what has changed. An error
// leaves the running configuration as it is, is logged, and is shown
// until a reload succeeds.
func (a *program) reload() (changes []string, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.drains.Load() != nil {
		return nil, errStopping
	}
	a.systemd.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
	before := a.policy.Load()
	next, err := a.source.load()
	if err == nil {
		err = a.source.emptiedError(before)
	}
	if err == nil {
		err = a.apply(next)
	}
	if errors.Is(err, dispatch.ErrClosed) {
		return nil, errStopping
	}
	a.metrics.Reloaded(err == nil)
	if err != nil {
		refused := &refusedReload{time.Now(), err}
		if old := a.refused.Load(); old != nil {
			refused.since = old.since
		}
		a.refused.Store(refused)
		err = fmt.Errorf(reloadRefused+"%w", err)
		a.systemd.ready(err.Error())
		a.log.WithField("reason", errors.Unwrap(err)).Error(err)
		return nil, err
	}
	a.refused.Store(nil)
	a.systemd.ready("serving on " + a.listener.Addr().String())
	changes = policy.Changes(before, a.policy.Load(), a.proxy.Current().TokenChanges())
	if len(changes) > 0 {
		a.history.BeginAnew(time.Now())
	}
	if a.source.name != "" && !a.source.rereadable() {
		changes = append(changes, a.source.name+" cannot be read again, so the settings stay; tokens and files of secrets were read")
	}
	a.log.Info("the configuration was reloaded: " + policy.ChangesText(changes))
	return changes, nil
}

// apply applies all of a policy or nothing. A policy of which a part needs a restart is
// refused as a whole, so that the running configuration is always one that was written.
func (a *program) apply(next *policy.Policy) error {
	now := *a.policy.Load()
	now.Listen, now.Admin.Listen = a.asked.Listen, a.asked.Admin.Listen
	keys := policy.NeedRestart(&now, next)
	if a.asked.Open != next.Open && !(a.asked.Open.Default && next.Open.Default) { // a default follows listen, and intercept: none needs no restart
		keys = append(keys, "listen_open")
	}
	if len(keys) > 0 {
		return fmt.Errorf("it changes %s, which takes a restart; until then nothing else of it is applied", strings.Join(keys, ", "))
	}
	next = a.withActualAddresses(next)
	var certificates listenersTLS
	if err := certificates.load(next); err != nil {
		return err
	}
	if err := a.ca.SetNames(next.InterceptNames()); err != nil {
		return err
	}
	if err := a.proxy.Reload(next); err != nil {
		return err
	}
	a.tls.proxy.Store(certificates.proxy.Load())
	a.tls.admin.Store(certificates.admin.Load())
	a.ca.SetRoots(next.Egress.Roots)
	setLog(a.log, next.Log)
	said := a.policy.Swap(next).Warnings()
	for _, one := range next.Warnings() {
		if !slices.Contains(said, one) {
			a.log.Warn(one)
		}
	}
	return nil
}

// refusedReload is the reload that was refused last.
type refusedReload struct {
	since time.Time // the first refusal since a reload has succeeded
	err   error     // of the last refusal
}

// Refused is the reload that was refused last, nil after a reload that succeeded.
func (a adminProcess) Refused() *status.RefusedReload {
	r := a.refused.Load()
	if r == nil {
		return nil
	}
	return &status.RefusedReload{Since: r.since.UTC(), Error: status.ErrorLine(r.err), Faults: admin.FaultsOf(r.err)}
}

// checks are the checks for /readyz, the status and the page. abide serves with the
// configuration before, so the check is degraded and not failed.
func (r *refusedReload) checks() []status.Check {
	if r == nil {
		return nil
	}
	text := r.err.Error()
	if faults, ok := errors.AsType[policy.Faults](r.err); ok {
		text = faults[0].Error()
		if more := len(faults) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more; abide check lists them)", more)
		}
	}
	return []status.Check{checkOf("configuration", "", r.since, "the last good one is used, because a reload was refused: "+text)}
}
