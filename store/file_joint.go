package store

import "encoding/json"

// joint answers an Ask with Joint. As long as no other instance uses the budget that is
// one statement, which writes what the instance says.
func (f *File) joint(d *disk, site string, a *Ask, t turn) (Answer, error) {
	if a.Joint.Owned {
		next, said := own(a, t)
		from := a.Joint.From
		n, err := d.change(`INSERT INTO counts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET
			instance = excluded.instance, seq = excluded.seq, ahead = excluded.ahead, at = excluded.at, state = excluded.state
			WHERE instance = ?3 AND seq < ?4 OR instance = ?8 AND seq = ?9`, // as row.owns: NULL equals nothing
			site, a.Key, next.instance, next.seq, next.ahead, next.at, next.state, from.instance, from.seq)
		if err != nil || n > 0 {
			return said, err
		}
	}
	r := &row{}
	err := d.row("SELECT instance, seq, ahead, at, state FROM counts WHERE site = ? AND key = ?", []any{site, a.Key}, &r.instance, &r.seq, &r.ahead, &r.at, &r.state)
	if none(err) {
		r = nil
	} else if err != nil {
		return Answer{}, err
	}
	next, said := r.share(a, t, f.lives)
	if said.Status != Done {
		return said, nil
	}
	return said, d.run("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?, ?, ?, ?)", site, a.Key, next.instance, next.seq, next.ahead, next.at, next.state)
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
