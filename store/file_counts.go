package store

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// budgets are the tables counts and notes of a file. The goroutine that commits uses
// them, in its transactions.
type budgets struct {
	path, own string // instance of this process
	log       *fileLog
	known     instanceSeqs // of this run of the process
}

func (f *budgets) exchange(d *database, b *Batch, now time.Time) (Reply, error) {
	reply := Reply{Generation: d.generation, Now: now, Answers: make([]Answer, 0, len(b.Asks))}
	t := caller{Instance: b.Instance, Now: now.UnixMicro()}
	f.known.add(b.Instance)
	for i := range b.Asks {
		a := &b.Asks[i]
		if a.Kind != Count { // a file keeps Count budgets only
			reply.Answers = append(reply.Answers, Answer{Key: a.Key, Seq: a.Seq, Status: Failed})
			continue
		}
		ask := f.count
		if a.Joint != nil {
			ask = f.joint
		}
		said, err := ask(d, b.Site, a, t)
		if err != nil {
			return reply, err
		}
		reply.Answers = append(reply.Answers, said)
	}
	var err error
	reply.Notes, err = f.exchangeNotes(d, b, now)
	return reply, err
}

const (
	countValues = "(site, key, instance, seq, ahead, at, state, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
	// updateCount inserts a row, or overwrites the present one under a condition.
	updateCount = "INSERT INTO counts " + countValues + ` ON CONFLICT DO UPDATE SET
		instance = excluded.instance, seq = excluded.seq, ahead = excluded.ahead, at = excluded.at,
		state = excluded.state, sum = excluded.sum WHERE `
)

// count answers an Ask for a Count: the latest state replaces the row.
func (f *budgets) count(d *database, site string, a *Ask, t caller) (Answer, error) {
	said := Answer{Key: a.Key, Seq: a.Seq, Status: Stale}
	if len(f.known.all) > 1 {
		if old, err := f.known.isOld(d, site, a, t.Instance); err != nil || old {
			return said, err
		}
	}
	next, _ := ownRow(a, t)
	n, err := d.change(updateCount+"instance IS NOT excluded.instance OR seq < excluded.seq", next.values(site, a.Key)...)
	if err != nil || n == 0 {
		return said, err
	}
	said.Status, said.Granted, said.Holders = Done, clamp(a.Want), 1
	return said, nil
}

// instanceSeqs remembers the highest Seq of each instance of this process. There is one
// instance, except in tests: a row of counts has room for one, so Seqs of others are kept
// here to detect late messages.
type instanceSeqs struct {
	all  map[string]bool
	seen map[[3]string]int64 // :: site, key, instance → its Seq
}

func (s *instanceSeqs) add(instance string) {
	if s.all == nil {
		s.all, s.seen = map[string]bool{}, map[[3]string]int64{}
	}
	s.all[instance] = true
}

func (s *instanceSeqs) isOld(d *database, site string, a *Ask, instance string) (bool, error) {
	var other string
	var seq int64
	err := d.row("SELECT instance, seq FROM counts WHERE site = ? AND key = ?", []any{site, a.Key}, &other, &seq)
	if noRows(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if other != instance && s.all[other] {
		s.seen[[3]string{site, a.Key, other}] = seq
	}
	last, there := s.seen[[3]string{site, a.Key, instance}]
	return there && other != instance && seqOrder(a.Seq) <= last, nil
}

func (f *budgets) exchangeNotes(d *database, b *Batch, now time.Time) ([]Note, error) {
	known, before := map[string]Note{}, map[string]Note{}
	var damaged []damagedRow
	err := d.rows("SELECT key, at, until, n, text, sum FROM notes WHERE site = ?", []any{b.Site}, func(scan func(...any) error) error {
		var n Note
		var at, until int64
		var sum *int64
		if err := scan(&n.Key, &at, &until, &n.N, &n.Text, &sum); err != nil {
			return err
		}
		if sum != nil && *sum != noteSum(b.Site, n.Key, at, until, n.N, n.Text) {
			damaged = append(damaged, damagedRow{"notes", "site, key", []any{b.Site, n.Key}, *sum, []any{b.Site, n.Key, at, until, n.N, n.Text}})
			return nil
		}
		n.Until = time.UnixMicro(until)
		known[n.Key] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, one := range damaged {
		if err := f.log.setRowAside(d, one, now.UnixMicro()); err != nil {
			return nil, err
		}
	}
	maps.Copy(before, known)
	MergeNotes(known, b.Notes, now)
	for key := range before {
		if _, there := known[key]; !there {
			if err := d.run("DELETE FROM notes WHERE site = ? AND key = ?", b.Site, key); err != nil {
				return nil, err
			}
		}
	}
	for key, n := range known {
		if n != before[key] {
			at, until := now.UnixMicro(), n.Until.UnixMicro()
			err := d.run("INSERT OR REPLACE INTO notes (site, key, at, until, n, text, sum) VALUES (?, ?, ?, ?, ?, ?, ?)",
				b.Site, key, at, until, n.N, n.Text, noteSum(b.Site, key, at, until, n.N, n.Text))
			if err != nil {
				return nil, err
			}
		}
	}
	return SortNotes(slices.Collect(maps.Values(known))), nil
}

// joint answers an Ask with Joint. While no other instance uses the budget that is one
// statement, which writes the instance's state.
func (f *budgets) joint(d *database, site string, a *Ask, t caller) (Answer, error) {
	if a.Joint.Owned {
		next, said := ownRow(a, t)
		n, err := d.change(updateCount+"instance = ?3 AND seq < ?4 OR instance = ?9 AND seq = ?10", // as owns: NULL equals nothing
			append(next.values(site, a.Key), a.Joint.From.instance, a.Joint.From.seq)...)
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
	return said, d.run("INSERT OR REPLACE INTO counts "+countValues, next.values(site, a.Key)...)
}

// values returns the values for countValues.
func (r *JointRow) values(site, key string) []any {
	return []any{site, key, r.instance, r.seq, r.ahead, r.at, r.state, r.sum(site, key)}
}

// sum is the checksum of a row of counts.
func (r *JointRow) sum(site, key string) int64 {
	return checksum("count", site, key, r.instance, r.seq, r.ahead, r.at, r.state)
}

// bad returns the row as a damagedRow.
func (r *JointRow) bad(site, key string, sum int64) damagedRow {
	return damagedRow{"counts", "site, key", []any{site, key}, sum, r.values(site, key)[:7]}
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
