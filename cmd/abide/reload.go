package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// quietTime is for how long a configuration file must not have changed before it is read:
// editors and Kubernetes change files in several steps.
const quietTime = 100 * time.Millisecond

// reloadRefused begins the error of a reload that was refused.
const reloadRefused = "the configuration was not reloaded and the last good one stays: "

var errStopping = errors.New("abide is stopping")

// follow reloads the configuration when asked to, or when the file has changed, until ctx is
// done.
func (a *program) follow(ctx context.Context, asked <-chan struct{}) {
	changed := make(chan struct{}, 1)
	if a.source != nil && a.source.rereadable() {
		w, err := newWatch(a.source.path)
		if err != nil {
			a.log.Warnf("%s is not watched for changes (%v); SIGHUP and POST /api/v1/reload still have it read again", a.source.path, err)
		} else {
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.run(ctx, quietTime, func() {
					select {
					case changed <- struct{}{}:
					default: // a reload is pending already, and will see this change
					}
				})
			}()
			defer func() { <-done }()
		}
		// For changes between the start and the watch.
		if err == nil && a.source.changed() {
			changed <- struct{}{}
		}
	}
	secrets := newTokenWatches(ctx, a.log)
	defer secrets.close()
	for {
		secrets.follow(a.policy.Load())
		select {
		case <-ctx.Done():
			return
		case <-asked:
			_, _ = a.reloadOnRequest() // the log has the error
			continue
		case <-secrets.changed:
		case <-changed:
			if !a.source.changed() {
				continue
			}
		}
		_, _ = a.reload() // the log has the error
	}
}

// reloadOnRequest is a reload that an operator asked for. It also forgets which clients
// refused the CA, because they may trust it now.
func (a *program) reloadOnRequest() (changes []string, err error) {
	a.proxy.ForgetRejections()
	return a.reload()
}

// reload reads the configuration and applies it, and returns what has changed. An error
// leaves the running configuration as it is, is logged once for each attempt, and is shown
// until a reload succeeds.
func (a *program) reload() (changes []string, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.stopping.Load() {
		return nil, errStopping
	}
	a.systemd.reloading()
	before, tokens := a.policy.Load(), a.tokenCounts()
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
	a.refused.note(time.Now(), err)
	if err != nil {
		err = fmt.Errorf(reloadRefused+"%w", err)
		a.systemd.ready(err.Error())
		a.log.Error(err)
		return nil, err
	}
	a.systemd.ready("serving on " + a.listener.Addr().String())
	changes = policy.Changes(before, a.policy.Load(), tokens, a.tokenCounts())
	a.log.Info("the configuration was reloaded: " + policy.ChangesText(changes))
	return changes, nil
}

// tokenCounts is the number of tokens of each pool.
func (a *program) tokenCounts() map[string]int {
	counts := map[string]int{}
	for _, pool := range a.proxy.Pools() {
		counts[pool.Name] = len(pool.Tokens)
	}
	return counts
}

// apply applies all of a policy or nothing. A policy of which a part needs a restart is
// refused as a whole, so that the running configuration is always one that was written.
func (a *program) apply(next *policy.Policy) error {
	now := *a.policy.Load()
	now.Listen, now.Admin.Listen = a.asked.listen, a.asked.admin
	keys := needRestart(&now, next)
	if !a.asked.sameOpen(next.Open) {
		keys = append(keys, "listen_open")
	}
	if len(keys) > 0 {
		return fmt.Errorf("it changes %s, which takes a restart", strings.Join(keys, ", "))
	}
	next = a.withActualAddresses(next)
	if err := a.ca.SetNames(next.InterceptNames()); err != nil {
		return err
	}
	if err := a.proxy.Reload(next); err != nil {
		return err
	}
	a.ca.SetRoots(next.Egress.Roots)
	setLog(a.log, next.Log)
	a.policy.Store(next)
	for _, one := range next.Warnings() {
		a.log.Warn(one)
	}
	return nil
}

// needRestart are the keys that a running process cannot change: addresses, the data
// directory, and sizes that are fixed at the start.
func needRestart(now, next *policy.Policy) []string {
	var keys []string
	for _, one := range []struct {
		key  string
		same bool
	}{
		{"listen", now.Listen == next.Listen},
		{"admin.listen", now.Admin.Listen == next.Admin.Listen},
		{"data", now.Data == next.Data},
		{"ca.cert", now.CA.Cert == next.CA.Cert},
		{"ca.key", now.CA.Key == next.CA.Key},
		{"store", now.Store.Same(&next.Store)},
		{"strict_state", now.StrictState == next.StrictState},
		{"timeouts.header", now.Timeouts.Header == next.Timeouts.Header},
		{"timeouts.idle", now.Timeouts.Idle == next.Timeouts.Idle},
		{"bounds.certificates", now.Bounds.Certificates == next.Bounds.Certificates},
		{"metrics.sites", now.Metrics.Sites == next.Metrics.Sites},
	} {
		if !one.same {
			keys = append(keys, one.key)
		}
	}
	return keys
}
