package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// Exchange answers each Batch when its data is on the disk.
func (f *File) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	var replies []Reply
	err := f.write(ctx, func(d *database, now time.Time) error {
		now = time.UnixMicro(now.UnixMicro())
		list := make([]Reply, len(batches))
		for i := range batches {
			reply, err := f.budgets.exchange(d, &batches[i], now)
			if err != nil {
				return err
			}
			list[i] = reply
		}
		replies = list
		return nil
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// Pulse counts the processes that use the file. Each is an instance while it lives, whatever it says.
func (f *File) Pulse(ctx context.Context, _ Member) (Pulse, error) {
	if err := ctx.Err(); err != nil {
		return Pulse{}, err
	}
	d, members := f.disk.Load(), 1+len(f.others())
	said := uint64(0)
	if d != nil {
		said = d.documents(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return Pulse{}, ErrClosed
	}
	if d == nil || d.readOnly {
		return Pulse{}, cmp.Or(f.health.Err, errOpening)
	}
	now := time.UnixMicro(f.o.Now().UnixMicro())
	return Pulse{Generation: d.generation, Since: max(now.Sub(d.generationStart), 0), Members: members, Documents: said, Now: now}, nil
}

// Members lists the processes that use the file, as seen now.
func (f *File) Members(ctx context.Context) ([]Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.UnixMicro(f.o.Now().UnixMicro())
	list := []Member{{ID: f.o.Instance, Name: f.o.Name, Seen: now}}
	for _, one := range f.others() {
		list = append(list, Member{ID: one.ID, Name: cmp.Or(one.Name, one.ID), Seen: now})
	}
	return sortedMembers(slices.Values(list)), nil
}

// Recall reads the saved Count budgets that no other process uses now, the latest first. If
// the file turns out to be damaged, it is moved aside, and only the budgets read before are
// returned.
func (f *File) Recall(ctx context.Context) (all []SavedBudget, err error) {
	now := f.o.Now().UnixMicro()
	lives := map[string]bool{}    // :: instance
	named := map[string]*string{} // :: instance → its name, once for all Counts
	var aside []damagedRow
	err = f.reading(ctx, func(ctx context.Context, d *database) error {
		oldest, there, err := d.oldest(ctx, f.o.Counts)
		if err != nil {
			return err
		}
		f.maintenance.oldest.Store(oldest)
		all = make([]SavedBudget, 0, there)
		return sqlite.Each(func(rows *sql.Rows) error {
			var k SavedBudget
			var at int64
			var instance sql.RawBytes
			var sum *int64
			if err := rows.Scan(&k.Site, &k.Key, &k.State, &k.Ahead, &at, &instance, &k.From.seq, &sum); err != nil {
				return asDamage(err)
			}
			if r := (&JointRow{string(instance), k.From.seq, k.Ahead, at, k.State}); sum != nil && *sum != r.sum(k.Site, k.Key) {
				aside = append(aside, r.bad(k.Site, k.Key, *sum))
				return nil
			}
			if k.From.instance = named[string(instance)]; k.From.instance == nil {
				name := string(instance)
				k.From.instance, named[name] = &name, &name
			}
			if !f.budgets.unusedByOthers(&k, lives) {
				return nil // the process that uses it has the current state
			}
			k.Ahead, k.At = clamp(k.Ahead), time.UnixMicro(min(at, now))
			all = append(all, k)
			return nil
		})(d.readers.QueryContext(ctx, "SELECT site, key, state, ahead, at, instance, seq, sum FROM counts WHERE at >= ?", oldest))
	})
	if err == nil {
		err = f.setRowsAside(ctx, aside)
	}
	slices.SortStableFunc(all, func(a, b SavedBudget) int { return b.At.Compare(a.At) })
	return all[:min(len(all), f.o.Counts)], err
}

// budgets are the tables counts and notes of a file. The goroutine that commits uses
// them, in its transactions.
type budgets struct {
	path, own string // instance of this process
	log       *fileLog
}

func (f *budgets) exchange(d *database, b *Batch, now time.Time) (Reply, error) {
	reply := Reply{Generation: d.generation, Now: now, Answers: make([]Answer, 0, len(b.Asks))}
	for i := range b.Asks {
		a := &b.Asks[i]
		if a.Kind != Count || a.Joint == nil { // a file keeps Count budgets only
			reply.Answers = append(reply.Answers, Answer{Key: a.Key, Seq: a.Seq, Status: Failed})
			continue
		}
		said, err := f.count(d, b.Site, a, b.Instance, now)
		if err != nil {
			return reply, err
		}
		reply.Answers = append(reply.Answers, said)
	}
	var err error
	reply.Notes, err = f.exchangeNotes(d, b, now)
	return reply, err
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

// row reads the row of a Count; nil: there is none.
func (f *budgets) row(d *database, site, key string, now time.Time) (*JointRow, error) {
	r := &JointRow{}
	var sum *int64
	err := d.row("SELECT instance, seq, ahead, at, state, sum FROM counts WHERE site = ? AND key = ?", []any{site, key}, &r.instance, &r.seq, &r.ahead, &r.at, &r.state, &sum)
	switch {
	case noRows(err):
		return nil, nil
	case err == nil && sum != nil && *sum != r.sum(site, key):
		return nil, f.log.setRowAside(d, r.bad(site, key, *sum), now.UnixMicro())
	}
	return r, err
}

// count answers an Ask.
func (f *budgets) count(d *database, site string, a *Ask, instance string, now time.Time) (Answer, error) {
	rows := map[string]*JointRow{}
	for _, key := range append([]string{a.Key}, a.Joint.Before...) {
		r, err := f.row(d, site, key, now)
		if err != nil {
			return Answer{}, err
		}
		rows[key] = r
	}
	next, said := AnswerJoint(rows, a, instance, now, f.isAlive)
	if said.Status != Done {
		return said, nil
	}
	return said, d.run("INSERT OR REPLACE INTO counts (site, key, instance, seq, ahead, at, state, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", next.values(site, a.Key)...)
}

// values returns the values of the row's columns.
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
	return instance == f.own || processAlive(f.path, instance)
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
