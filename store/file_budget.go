package store

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"
)

// Exchange answers each Batch, when what it says is on the disk.
func (f *File) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	own := make([]Batch, len(batches)) // it may still be read after ctx has ended
	for i, b := range batches {
		b.Asks, b.Notes = slices.Clone(b.Asks), slices.Clone(b.Notes)
		for j, a := range b.Asks {
			b.Asks[j].State = slices.Clone(a.State)
		}
		own[i] = b
	}
	var replies []Reply
	err := f.write(ctx, func(d *disk, now time.Time) error {
		now = time.UnixMicro(now.UnixMicro())
		list := make([]Reply, len(own))
		for i := range own {
			reply, err := f.exchange(d, &own[i], now)
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

func (f *File) exchange(d *disk, b *Batch, now time.Time) (Reply, error) {
	reply := Reply{Generation: d.generation, Now: now, Answers: make([]Answer, 0, len(b.Asks))}
	t := turn{Instance: b.Instance, Now: now.UnixMicro()}
	f.known.add(b.Instance)
	for i := range b.Asks {
		a := &b.Asks[i]
		if a.Kind != Count { // processes of one machine know their meters themselves
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

// count is decide for a Count, of which only what was said last is of use.
func (f *File) count(d *disk, site string, a *Ask, t turn) (Answer, error) {
	said := Answer{Key: a.Key, Seq: a.Seq, Status: Stale}
	if len(f.known.all) > 1 {
		if old, err := f.known.late(d, site, a, t.Instance); err != nil || old {
			return said, err
		}
	}
	n, err := d.change(`INSERT INTO counts (site, key, instance, seq, ahead, at, state, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET instance = excluded.instance, seq = excluded.seq, ahead = excluded.ahead, at = excluded.at,
		state = excluded.state, sum = excluded.sum
		WHERE instance IS NOT excluded.instance OR seq < excluded.seq`,
		site, a.Key, t.Instance, order(a.Seq), clamp(a.Want), t.Now, a.State,
		countSum(site, a.Key, t.Instance, order(a.Seq), clamp(a.Want), t.Now, a.State))
	if err != nil || n == 0 {
		return said, err
	}
	said.Status, said.Granted, said.Holders = Done, clamp(a.Want), 1
	return said, nil
}

// order keeps the order of numbers that are larger than SQLite's.
func order(seq uint64) int64 { return int64(seq ^ 1<<63) }

// instances are those that have said something in this life of the process. There is
// one, but for tests: a Count has room for one, so of others it is remembered here
// how far they were, and a late message of theirs is known to be old.
type instances struct {
	all  map[string]bool
	seen map[[3]string]int64 // :: site, key, instance → its Seq
}

func (s *instances) add(instance string) {
	if s.all == nil {
		s.all, s.seen = map[string]bool{}, map[[3]string]int64{}
	}
	s.all[instance] = true
}

func (s *instances) late(d *disk, site string, a *Ask, instance string) (bool, error) {
	var other string
	var seq int64
	err := d.row("SELECT instance, seq FROM counts WHERE site = ? AND key = ?", []any{site, a.Key}, &other, &seq)
	if none(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if other != instance && s.all[other] {
		s.seen[[3]string{site, a.Key, other}] = seq
	}
	last, there := s.seen[[3]string{site, a.Key, instance}]
	return there && other != instance && order(a.Seq) <= last, nil
}

func (f *File) exchangeNotes(d *disk, b *Batch, now time.Time) ([]Note, error) {
	known, before := map[string]Note{}, map[string]Note{}
	var damaged []bad
	err := d.rows("SELECT key, at, until, n, text, sum FROM notes WHERE site = ?", []any{b.Site}, func(scan func(...any) error) error {
		var n Note
		var at, until int64
		var sum *int64
		if err := scan(&n.Key, &at, &until, &n.N, &n.Text, &sum); err != nil {
			return err
		}
		if sum != nil && *sum != noteSum(b.Site, n.Key, at, until, n.N, n.Text) {
			damaged = append(damaged, bad{"notes", "site, key", []any{b.Site, n.Key}, *sum, []any{b.Site, n.Key, at, until, n.N, n.Text}})
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
		if err := f.setRowAside(d, one, now.UnixMicro()); err != nil {
			return nil, err
		}
	}
	maps.Copy(before, known)
	mergeNotes(known, b.Notes, now)
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
	return sortNotes(slices.Collect(maps.Values(known))), nil
}

// Pulse says that an instance is there. Instances of other processes are there as long
// as their process lives and uses the file.
func (f *File) Pulse(ctx context.Context, who Member) (Pulse, error) {
	if err := ctx.Err(); err != nil {
		return Pulse{}, err
	}
	d, others := f.disk.Load(), f.others()
	said := f.version.Load()
	if d != nil && len(others) > 0 {
		said += d.documents(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return Pulse{}, ErrClosed
	}
	if d == nil || d.readOnly {
		return Pulse{}, cmp.Or(f.trouble.Err, errOpening)
	}
	now := time.UnixMicro(f.o.Now().UnixMicro())
	who.Seen = now
	if who.Gone {
		delete(f.members, who.ID)
	} else if who.ID != "" {
		f.members[who.ID] = who
	}
	maps.DeleteFunc(f.members, func(_ string, one Member) bool {
		silent := now.Sub(one.Seen)
		return silent > one.lifetime() || silent < 0
	})
	return Pulse{
		Generation: d.generation, Since: max(now.Sub(d.born), 0), Members: len(f.everybody(others)),
		Documents: said, Now: now,
	}, nil
}

// Members are the instances that are there. Those of other processes have been seen
// now: they are there as long as they live.
func (f *File) Members(ctx context.Context) ([]Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	others := f.others()
	f.mu.Lock()
	defer f.mu.Unlock()
	return listed(maps.Values(f.everybody(others))), nil
}

// everybody is the instances of this process and those of others. The lock is held.
func (f *File) everybody(others []signature) map[string]Member {
	all, now := maps.Clone(f.members), time.UnixMicro(f.o.Now().UnixMicro())
	for _, one := range others {
		all[one.ID] = Member{ID: one.ID, Name: cmp.Or(one.Name, one.ID), Seen: now}
	}
	return all
}

// Kept is a Count budget as it was said last.
type Kept struct {
	Site, Key string
	State     []byte
	Ahead     int64     // may have been taken after State
	At        time.Time // when it was said: never in the future
	From      Origin    // of State, for the first Ask with Joint
}

// Recall reads the Count budgets that are kept and that no other process uses now, those
// said last first. A file that turns out to be damaged on the way is set aside, and what
// was read until then is all there is.
func (f *File) Recall(ctx context.Context) (all []Kept, err error) {
	now := f.o.Now().UnixMicro()
	lives := map[string]bool{}    // :: instance
	named := map[string]*string{} // :: instance → its name, once for all Counts
	var aside []bad
	err = f.reading(ctx, func(ctx context.Context, d *disk) error {
		oldest, there, err := d.oldest(ctx, f.o.Counts)
		if err != nil {
			return err
		}
		f.chores.oldest.Store(oldest)
		all = make([]Kept, 0, there)
		rows, err := d.readers.QueryContext(ctx, "SELECT site, key, state, ahead, at, instance, seq, sum FROM counts WHERE at >= ?", oldest)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k Kept
			var at int64
			var instance sql.RawBytes
			var sum *int64
			if err := rows.Scan(&k.Site, &k.Key, &k.State, &k.Ahead, &at, &instance, &k.From.seq, &sum); err != nil {
				return unreadable(err)
			}
			if r := (&row{string(instance), k.From.seq, k.Ahead, at, k.State}); sum != nil && *sum != r.sum(k.Site, k.Key) {
				aside = append(aside, r.bad(k.Site, k.Key, *sum))
				continue
			}
			if k.From.instance = named[string(instance)]; k.From.instance == nil {
				name := string(instance)
				k.From.instance, named[name] = &name, &name
			}
			if !f.free(&k, lives) {
				continue // the process that uses it knows how it stands
			}
			k.Ahead, k.At = clamp(k.Ahead), time.UnixMicro(min(at, now))
			all = append(all, k)
		}
		return rows.Err()
	})
	if err == nil {
		err = f.setRowsAside(ctx, aside)
	}
	slices.SortStableFunc(all, func(a, b Kept) int { return b.At.Compare(a.At) })
	return all[:min(len(all), f.o.Counts)], err
}

// oldest is when that was said of which only n Counts were said later, or 0 if there
// are no more than those, and about how many were said since. SQLite's own sorting takes
// much longer.
func (d *disk) oldest(ctx context.Context, n int) (at int64, since int, err error) {
	var there int
	if err := d.readers.QueryRowContext(ctx, "SELECT count(*) FROM counts").Scan(&there); err != nil || there <= n {
		return 0, there, err
	}
	rows, err := d.readers.QueryContext(ctx, "SELECT at FROM counts")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	said := make([]int64, 0, there)
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return 0, 0, unreadable(err)
		}
		said = append(said, at)
	}
	slices.Sort(said)
	if len(said) <= n {
		return 0, len(said), rows.Err()
	}
	return said[len(said)-n], n, rows.Err()
}
