package store

import "encoding/json"

// joint answers an Ask with Joint. As long as no other instance uses the budget that is
// one statement, which writes what the instance says.
func (f *File) joint(d *disk, site string, a *Ask, t turn) (Answer, error) {
	if a.Joint.Owned {
		next, said := own(a, t)
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
	r := &row{}
	var sum *int64
	err := d.row("SELECT instance, seq, ahead, at, state, sum FROM counts WHERE site = ? AND key = ?", []any{site, a.Key}, &r.instance, &r.seq, &r.ahead, &r.at, &r.state, &sum)
	switch {
	case none(err):
		r = nil
	case err != nil:
		return Answer{}, err
	case sum != nil && *sum != r.sum(site, a.Key):
		if err := f.setRowAside(d, r.bad(site, a.Key, *sum), t.Now); err != nil {
			return Answer{}, err
		}
		r = nil
	}
	next, said := r.share(a, t, f.lives)
	if said.Status != Done {
		return said, nil
	}
	return said, d.run("INSERT OR REPLACE INTO counts (site, key, instance, seq, ahead, at, state, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		site, a.Key, next.instance, next.seq, next.ahead, next.at, next.state, next.sum(site, a.Key))
}

func (r *row) sum(site, key string) int64 {
	return countSum(site, key, r.instance, r.seq, r.ahead, r.at, r.state)
}

// bad is the row as one whose checksum is wrong.
func (r *row) bad(site, key string, sum int64) bad {
	return bad{"counts", "site, key", []any{site, key}, sum, []any{site, key, r.instance, r.seq, r.ahead, r.at, r.state}}
}

// lives tells whether an instance has not ended.
func (f *File) lives(instance string) bool {
	return instance == f.o.Instance || f.known.all[instance] || processLives(f.path, instance)
}

// free tells whether none of the instances that may take of a Count lives, and has k be
// as it is for one that begins with it.
func (f *File) free(k *Kept, lives map[string]bool) bool {
	known := func(id string) bool {
		is, asked := lives[id]
		if !asked {
			is = processLives(f.path, id)
			lives[id] = is
		}
		return is
	}
	if instance := *k.From.instance; instance != severals {
		return !known(instance)
	}
	var c common
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
