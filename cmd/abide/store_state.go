package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// Three types say how the store is: status.Store for the admin API and the page,
// metrics.StoreState for /metrics, and store.Health, which is only whether the state file fails.

// storeStatus is the state of the store and the state file, for the admin API.
func (a *program) storeStatus(ctx context.Context) status.Store {
	st := a.withStateFile(a.proxy.Store())
	st.Members = a.proxy.Instances(ctx)
	return st
}

// withStateFile adds the state file's failure and its damage to the state of the store.
func (a *program) withStateFile(st status.Store) status.Store {
	st.Damage = a.kept.damage()
	if st.Kind == status.StoreLocal && st.Since.IsZero() {
		if health := a.kept.health(); health.Err != nil {
			st.Since, st.Err = health.Since, health.Err.Error()
		}
	}
	return st
}

// health says whether the state file fails; the zero Health if there is no file.
func (k *storage) health() store.Health {
	if k == nil || k.file == nil {
		return store.Health{}
	}
	return k.file.Health()
}

// damage is the part of the state file that was set aside, nil if there is none.
func (k *storage) damage() *status.Damage {
	if k == nil || k.file == nil {
		return nil
	}
	d := k.file.Damage()
	if d.At.IsZero() {
		return nil
	}
	return &status.Damage{At: d.At, File: d.File, Why: d.Why, Rows: d.Rows}
}

// storeChecks are the checks of /readyz for the state file and the store. The proxy serves
// while either fails, so neither makes abide unready.
func (a *program) storeChecks() (checks []status.Check) {
	if a.kept != nil && a.kept.file != nil {
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

// checkOf is the check of a store or file that has failed since a time, and why; a zero time
// and no reason mean that it works. where is its path, shown while it works. A failure leaves the
// check OK, because the proxy serves all the same, but Degraded.
func checkOf(name, where string, since time.Time, why string) status.Check {
	if since.IsZero() && why == "" {
		return status.Check{Name: name, OK: true, Detail: where}
	}
	return status.Check{Name: name, OK: true, Degraded: true, Detail: "since " + since.UTC().Format(time.RFC3339) + ": " + why}
}

// storeMetrics is the state of the store for the metrics.
func (a *program) storeMetrics() metrics.StoreState {
	st := a.withStateFile(a.proxy.Store())
	state := metrics.StoreState{Up: st.Since.IsZero(), Members: max(st.Count, 1), Utilisation: -1, Clock: st.Clock}
	if a.kept != nil && a.kept.file != nil {
		d := a.kept.file.Damage()
		state.Damaged = map[string]int{"file": d.Files, "row": d.Rows}
	}
	if st.Granted > 0 {
		state.Utilisation = float64(st.Spent) / float64(st.Granted)
	}
	return state
}
