package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// stateFile is the name of the state file in the data directory.
const stateFile = "abide.db"

// openingPatience bounds the reading of the state file at the start. A large file on a slow
// disk takes minutes, and an abide that does not start is worse than one that starts late.
const openingPatience = 5 * time.Minute

// storage holds what outlives the process: the state file on this machine, and the store of
// a fleet. The zero value has neither.
type storage struct {
	file  *store.File  // nil: data is none
	redis *store.Redis // nil: budgets are this machine's own
}

// open opens the state file and the store of a policy, and returns the part of them that the proxy uses.
// The caller closes them, also after an error.
func (k *storage) open(ctx context.Context, p *policy.Policy, log *logrus.Logger) (keeping dispatch.Keeping, err error) {
	host, _ := os.Hostname()
	keeping = dispatch.Keeping{Instance: rand.Text(), Name: fmt.Sprintf("%s:%d", cmp.Or(host, "unknown"), os.Getpid())}
	ctx, cancel := context.WithTimeout(ctx, openingPatience)
	defer cancel()
	if p.Data != "none" {
		k.file, err = store.OpenFile(ctx, filepath.Join(p.Data, stateFile), store.FileOptions{
			Strict: p.StrictState, Log: log.Warnf, Instance: keeping.Instance, Name: keeping.Name, Most: sites.MostKept(),
		})
		if errors.Is(err, store.ErrInUse) {
			err = fmt.Errorf("%w; end that process, or set another data directory (--data), or keep nothing (--data none)", err)
		}
		if err != nil {
			return keeping, err
		}
		keeping.Store, keeping.Documents, keeping.Memory = k.file, k.file, k.file
		if !p.Store.Shared() {
			keeping.Budgets, err = k.file.Recall(ctx)
		}
		if err != nil && (p.StrictState || k.file.Health().Err == nil) { // otherwise the log has the error
			return keeping, fmt.Errorf("reading %s: %w", k.file.Path(), err)
		}
	}
	if !p.Store.Shared() {
		return keeping, nil
	}
	if k.redis, err = store.NewRedis(&p.Store, nil); err != nil {
		return keeping, fmt.Errorf("store: %w", err)
	}
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := k.redis.Pulse(soon, store.Member{}); err != nil {
		if store.Refused(err) {
			return keeping, fmt.Errorf("store: %w", err)
		}
		log.WithField("reason", err).Warnf("the store cannot be reached yet, so limits go by their outage rule until it can: %v", err)
	}
	keeping.Store, keeping.Shared, keeping.Documents, keeping.Budgets = k.redis, true, k.redis, nil
	return keeping, nil
}

// orSaved returns failed, unless that says that no proxy runs and the data directory has a state file: then it
// returns what use returns for a program that knows what the file has, and serves nothing. whole says that use needs
// all that the next proxy would know: there is no such program while an abide uses the directory, where a shared store
// has a part, or where the configuration has faults.
func orSaved(cmd *cobra.Command, failed error, whole bool, use func(a adminProcess) error) error {
	ours, _, err := adminSettings(cmd)
	if err != nil || ours.Data == "none" {
		return failed
	}
	file := filepath.Join(ours.Data, stateFile)
	if _, err := os.Stat(file); err != nil {
		return failed
	}
	if _, none := errors.AsType[notRunning](failed); !none {
		if whole && len(registrations(ours.Data)) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "an abide with another data directory was asked; %s was not changed: with ABIDE_ADMIN_LISTEN=off it is\n", file)
		}
		return failed
	}
	p, faults := loadPolicy(cmd)
	if whole && (faults != nil || p.Store.Shared() || len(registrations(p.Data)) > 0) {
		return failed
	}
	if faults == nil {
		ours, p.Store = p, ours.Store
	}
	ours.StrictState = true
	a := &program{log: newLog(cmd.ErrOrStderr(), ours.Log), metrics: metrics.New(1)}
	defer a.kept.close(a.log)
	keeping, err := a.kept.open(cmd.Context(), ours, a.log)
	if err != nil {
		return fmt.Errorf("no abide runs, and its state file cannot be read: %w", err)
	}
	if a.ca, err = ca.Open("", ca.Options{}); err != nil {
		return err
	}
	a.history = a.newHistory()
	fmt.Fprintln(cmd.ErrOrStderr(), "no proxy is running: from the state file", a.kept.file.Path())
	options := dispatch.Options{Policy: ours, Metrics: a.metrics, Log: a.log, Lookup: os.LookupEnv, Keeping: keeping}
	if a.proxy, err = proxy.New(options, a.ca); err != nil && !whole {
		fmt.Fprintf(cmd.ErrOrStderr(), "the state of tokens is not known: %v\n", err)
		ours.Pools, ours.Sites = nil, nil
		a.proxy, err = proxy.New(options, a.ca)
	}
	if err != nil {
		return err
	}
	a.policy.Store(ours)
	return use(adminProcess{a})
}

// close closes the state file and the store.
func (k *storage) close(log *logrus.Logger) {
	if k.redis != nil {
		_ = k.redis.Close() // the result does not matter
	}
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			log.WithField("reason", err).Warnf("closing the state file: %v", err)
		}
	}
}

// health says whether the state file fails; the zero Health if there is no file.
func (k *storage) health() store.Health {
	if k.file == nil {
		return store.Health{}
	}
	return k.file.Health()
}

// damage is the part of the state file that was set aside, nil if there is none.
func (k *storage) damage() *status.Damage {
	if k.file != nil {
		if d := k.file.Damage(); !d.At.IsZero() {
			return &d
		}
	}
	return nil
}

// Store is the state of the store and the state file.
func (a adminProcess) Store(ctx context.Context) status.Store {
	st := a.withStateFile(a.proxy.Store())
	st.Members = a.proxy.Instances(ctx)
	return st
}

// withStateFile adds the state file's failure and its damage to the state of the store.
func (a *program) withStateFile(st status.Store) status.Store {
	st.Damage = a.kept.damage()
	if health := a.kept.health(); health.Err != nil && st.Kind == status.StoreLocal && st.Since.IsZero() {
		st.Since, st.Err = health.Since, health.Err.Error()
	}
	return st
}

// storeChecks are the checks of /readyz for the state file and the store. The proxy serves
// while either fails, so neither makes abide unready.
func (a *program) storeChecks() (checks []status.Check) {
	if a.kept.file != nil {
		health := a.kept.health()
		why := ""
		if health.Err != nil {
			why = cmp.Or(health.Err.Error(), "it does not say why") + status.LostMeanwhile
		}
		checks = append(checks, checkOf("state", a.kept.file.Path(), health.Since, why))
		if d := a.kept.damage(); d != nil {
			checks = append(checks, status.Check{Name: "state damage", OK: true, Degraded: true, Detail: d.Sentence()})
		}
	}
	if st := a.proxy.Store(); st.Kind == status.StoreShared {
		checks = append(checks, checkOf("store", "", st.Since, st.Err))
		if len(st.Warnings) > 0 {
			checks = append(checks, status.Check{Name: "store settings", OK: true, Degraded: true, Detail: strings.Join(st.Warnings, "; ")})
		}
		if loss, now := st.Loss, time.Now(); loss != nil && loss.Settles(now) {
			checks = append(checks, status.Check{Name: "store loss", OK: true, Degraded: true, Detail: loss.Sentence(now)})
		}
	}
	return checks
}

// checkOf is the check of a store or file that has failed since a time, and why; no
// reason means that it works. where is its path, shown while it works. A failure leaves the
// check OK, because the proxy serves all the same, but Degraded.
func checkOf(name, where string, since time.Time, why string) status.Check {
	if why == "" {
		return status.Check{Name: name, OK: true, Detail: where}
	}
	return status.Check{Name: name, OK: true, Degraded: true, Detail: status.Since(since, time.Now()) + ": " + why}
}

// storeMetrics is the state of the store for the metrics.
func (a *program) storeMetrics() status.Store {
	st := a.withStateFile(a.proxy.Store())
	if a.kept.file != nil {
		st.Damage = new(a.kept.file.Damage()) // also where nothing is damaged
	}
	return st
}

// newHistory returns a recorder of what is counted. Tokens and waiting requests are sampled for the console alone.
func (a *program) newHistory() *history.Recorder {
	o := history.Options{Sites: a.metrics.Sites, Log: a.log, Blocked: func() []status.BlockedTime {
		list := a.proxy.Blocked()
		for site, o := range a.proxy.Activity().Outages { // that are over
			list = append(list, status.BlockedTime{Site: site, Limit: "outage", Busy: o.Lasted.Seconds()})
		}
		return list
	}}
	if a.admin != nil {
		o.Tokens = func() status.Tokens { return a.proxy.Tokens() }
		o.Waiting = func() int {
			_, held := a.proxy.Gate().Len()
			return held
		}
	}
	if a.kept.file != nil {
		o.File = a.kept.file
	}
	return history.New(o)
}

// countEnded counts a request or a tunnel that has ended.
func (a *program) countEnded(r dispatch.Report) {
	ending := "answered"
	switch stopped := r.Refusal == "draining"; {
	case stopped && r.Status == http.StatusServiceUnavailable:
		ending = "refused"
	case stopped:
		ending = "cut"
	case r.Status == status.ClientLeft:
		ending = "left"
	}
	if a.drains.Load() != nil {
		a.ended.add(ending)
	}
	requests := int64(1)
	if r.Tunnel {
		requests = 0
	}
	var failed []string
	if r.Status >= http.StatusBadRequest {
		failed = append(failed, status.FailureOf(r.Status, r.Denied))
	}
	if r.Status == status.ClientLeft {
		time.AfterFunc(endingTime, func() { a.settled.add(r.Site) })
	}
	if r.Refusal != "" {
		failed = append(failed, r.Refusal)
		if a.policy.Load().OfBrowser(r.Site) {
			a.ofBrowser.add(r.Refusal)
		}
	}
	a.history.Count(store.Row{
		Site: r.Site, Client: r.Client, Priority: r.Priority, Token: r.Token,
		Requests: requests, Refusals: int64(r.Refusals), Waited: r.Waited, In: r.Received, Out: r.Uploaded,
	}, failed...)
}
