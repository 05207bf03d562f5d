package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/store"
)

// storeNow is how what keeps budgets is, for the operator's listener.
func (a *program) storeNow(ctx context.Context) admin.Store {
	is := a.withFile(storeOf(a.proxy.Store()))
	for _, one := range a.proxy.Instances(ctx) {
		is.Members = append(is.Members, admin.Member{ID: one.ID, Name: cmp.Or(one.Name, one.ID), Seen: one.Seen})
	}
	return is
}

// withFile adds what is wrong with the state file, and what was.
func (a *program) withFile(is admin.Store) admin.Store {
	is.Damage = a.kept.damage()
	if is.Kind == "local" && is.Since.IsZero() {
		if ill := a.kept.health(); ill.Err != nil {
			is.Since, is.Err = ill.Since, ill.Err.Error()
		}
	}
	return is
}

func storeOf(s proxy.StoreStatus) admin.Store {
	is := admin.Store{
		Kind: s.Kind, Instance: s.Instance, Since: s.Since, Err: s.Err, Operations: s.Operations, Failures: s.Failures, Count: s.Members,
		Answered: s.Answered, Outages: s.Outages, Warnings: s.Warnings,
	}
	if l := s.Losses; l.All+l.Sites > 0 || l.Until.After(time.Now()) {
		is.Loss = &admin.Loss{All: l.All, Sites: l.Sites, At: l.Last.UTC(), Site: l.Site, Until: l.Until.UTC()}
	}
	if n := s.Operations + s.Failures; n > 0 {
		is.Mean = s.Took.Seconds() / float64(n)
	}
	return is
}

// health is what is wrong with the state file, if there is one.
func (k *keeping) health() store.Health {
	if k == nil || k.file == nil {
		return store.Health{}
	}
	return k.file.Health()
}

// damage is what was set aside of the state file, nil if nothing was.
func (k *keeping) damage() *admin.Damage {
	if k == nil || k.file == nil {
		return nil
	}
	d := k.file.Damage()
	if d.At.IsZero() {
		return nil
	}
	return &admin.Damage{At: d.At, File: d.File, Why: d.Why, Rows: d.Rows}
}

// storeChecks are what /readyz tells of the state file and of the store. Both may fail
// and the proxy serves on, so neither has clients sent elsewhere.
func (a *program) storeChecks() (checks []admin.Check) {
	if a.kept != nil && a.kept.file != nil {
		ill := a.kept.health()
		why := ""
		if ill.Err != nil {
			why = cmp.Or(ill.Err.Error(), "it does not say why") + admin.LostMeanwhile
		}
		checks = append(checks, checkOf("state", a.kept.file.Path(), ill.Since, why))
		if d := a.kept.damage(); d != nil {
			checks = append(checks, admin.Check{Name: "state damage", OK: true, Degraded: true, Detail: d.Sentence()})
		}
	}
	if is := a.proxy.Store(); is.Kind == "shared" {
		checks = append(checks, checkOf("store", "", is.Since, is.Err))
		if len(is.Warnings) > 0 {
			checks = append(checks, admin.Check{Name: "store settings", OK: true, Degraded: true, Detail: strings.Join(is.Warnings, "; ")})
		}
		if loss, now := storeOf(is).Loss, time.Now(); loss != nil && loss.Settles(now) {
			checks = append(checks, admin.Check{Name: "store loss", OK: true, Degraded: true, Detail: loss.Sentence(now)})
		}
	}
	return checks
}

func checkOf(name, where string, since time.Time, why string) admin.Check {
	if since.IsZero() && why == "" {
		return admin.Check{Name: name, OK: true, Detail: where}
	}
	return admin.Check{Name: name, OK: true, Degraded: true, Detail: "since " + since.UTC().Format(time.RFC3339) + ": " + why}
}

// storeState is the same for the metrics.
func (a *program) storeState() metrics.StoreState {
	fleet := a.proxy.Store()
	is := a.withFile(storeOf(fleet))
	state := metrics.StoreState{Up: is.Since.IsZero(), Members: max(is.Count, 1), Utilisation: -1, Clock: fleet.Clock}
	if a.kept != nil && a.kept.file != nil {
		d := a.kept.file.Damage()
		state.Damaged = map[string]int{"file": d.Files, "row": d.Rows}
	}
	if fleet.Granted > 0 {
		state.Utilisation = float64(fleet.Spent) / float64(fleet.Granted)
	}
	return state
}
