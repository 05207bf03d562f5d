package store

import "encoding/json"

// joint answers an Ask with Joint. While no other instance uses the budget that is one
// statement, which writes the instance's state.
func (f *budgets) joint(d *database, site string, a *Ask, t caller) (Answer, error) {
	if a.Joint.Owned {
		next, said := ownRow(a, t)
		from := a.Joint.From
		n, err := d.change(`INSERT INTO counts (site, key, instance, seq, ahead, at, state, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?10)
			ON CONFLICT DO UPDATE SET instance = excluded.instance, seq = excluded.seq, ahead = excluded.ahead, at = excluded.at,
			state = excluded.state, sum = excluded.sum
			WHERE instance = ?3 AND seq < ?4 OR instance = ?8 AND seq = ?9`, // as row.owns: NULL equals nothing
			site, a.Key, next.instance, next.seq, next.ahead, next.at, next.state, from.instance, from.seq, next.sum(site, a.Key))
		if err != nil || n > 0 {
			return said, err
		}
	}
	r := &JointRow{}
	var sum *int64
	err := d.row("SELECT instance, seq, ahead, at, state, sum FROM counts WHERE site = ? AND key = ?", []any{site, a.Key}, &r.instance, &r.seq, &r.ahead, &r.at, &r.state, &sum)
	switch {
	case noRows(err):
		r = nil
	case err != nil:
		return Answer{}, err
	case sum != nil && *sum != r.sum(site, a.Key):
		if err := f.log.setRowAside(d, r.bad(site, a.Key, *sum), t.Now); err != nil {
			return Answer{}, err
		}
		r = nil
	}
	next, said := r.share(a, t, f.isAlive)
	if said.Status != Done {
		return said, nil
	}
	return said, d.run("INSERT OR REPLACE INTO counts (site, key, instance, seq, ahead, at, state, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		site, a.Key, next.instance, next.seq, next.ahead, next.at, next.state, next.sum(site, a.Key))
}

func (r *JointRow) sum(site, key string) int64 {
	return countSum(site, key, r.instance, r.seq, r.ahead, r.at, r.state)
}

// bad returns the row as a damagedRow.
func (r *JointRow) bad(site, key string, sum int64) damagedRow {
	return damagedRow{"counts", "site, key", []any{site, key}, sum, []any{site, key, r.instance, r.seq, r.ahead, r.at, r.state}}
}

// isAlive tells whether an instance is still running.
func (f *budgets) isAlive(instance string) bool {
	return instance == f.own || f.known.all[instance] || processAlive(f.path, instance)
}

// unusedByOthers tells whether no live instance may take of a Count. If so, it changes k to
// the state for an instance that begins with it.
func (f *budgets) unusedByOthers(k *SavedBudget, lives map[string]bool) bool {
	known := func(id string) bool {
		ok, asked := lives[id]
		if !asked {
			ok = processAlive(f.path, id)
			lives[id] = ok
		}
		return ok
	}
	if instance := *k.From.instance; instance != sharedInstance {
		return !known(instance)
	}
	var c sharedState
	if json.Unmarshal(k.State, &c) != nil {
		return true
	}
	for id := range c.Parts {
		if known(id) {
			return false
		}
	}
	k.State = c.State
	return true
}
