package store

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"
)

// Exchange answers each Batch when its data is on the disk.
func (f *File) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	batchs := make([]Batch, len(batches)) // a copy: it may be read after ctx has ended
	for i, b := range batches {
		b.Asks, b.Notes = slices.Clone(b.Asks), slices.Clone(b.Notes)
		for j, a := range b.Asks {
			b.Asks[j].State = slices.Clone(a.State)
		}
		batchs[i] = b
	}
	var replies []Reply
	err := f.write(ctx, func(d *database, now time.Time) error {
		now = time.UnixMicro(now.UnixMicro())
		list := make([]Reply, len(batchs))
		for i := range batchs {
			reply, err := f.budgets.exchange(d, &batchs[i], now)
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

// Pulse records that an instance is alive. Instances of other processes count while their
// process lives and uses the file.
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
		return Pulse{}, cmp.Or(f.health.Err, errOpening)
	}
	now := time.UnixMicro(f.o.Now().UnixMicro())
	who.Seen = now
	if who.Gone {
		delete(f.members, who.ID)
	} else if who.ID != "" {
		f.members[who.ID] = who
	}
	maps.DeleteFunc(f.members, func(_ string, member Member) bool {
		silent := now.Sub(member.Seen)
		return silent > member.lifetime() || silent < 0
	})
	return Pulse{
		Generation: d.generation, Since: max(now.Sub(d.generationStart), 0), Members: len(f.allMembers(others)),
		Documents: said, Now: now,
	}, nil
}

// Members lists the live instances. Those of other processes count as seen now.
func (f *File) Members(ctx context.Context) ([]Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	others := f.others()
	f.mu.Lock()
	defer f.mu.Unlock()
	return sortedMembers(maps.Values(f.allMembers(others))), nil
}

// allMembers are the instances of this process and of others. The caller holds the lock.
func (f *File) allMembers(others []processInfo) map[string]Member {
	all, now := maps.Clone(f.members), time.UnixMicro(f.o.Now().UnixMicro())
	for _, one := range others {
		all[one.ID] = Member{ID: one.ID, Name: cmp.Or(one.Name, one.ID), Seen: now}
	}
	return all
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
		rows, err := d.readers.QueryContext(ctx, "SELECT site, key, state, ahead, at, instance, seq, sum FROM counts WHERE at >= ?", oldest)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k SavedBudget
			var at int64
			var instance sql.RawBytes
			var sum *int64
			if err := rows.Scan(&k.Site, &k.Key, &k.State, &k.Ahead, &at, &instance, &k.From.seq, &sum); err != nil {
				return asDamage(err)
			}
			if r := (&JointRow{string(instance), k.From.seq, k.Ahead, at, k.State}); sum != nil && *sum != r.sum(k.Site, k.Key) {
				aside = append(aside, r.bad(k.Site, k.Key, *sum))
				continue
			}
			if k.From.instance = named[string(instance)]; k.From.instance == nil {
				name := string(instance)
				k.From.instance, named[name] = &name, &name
			}
			if !f.budgets.unusedByOthers(&k, lives) {
				continue // the process that uses it has the current state
			}
			k.Ahead, k.At = clamp(k.Ahead), time.UnixMicro(min(at, now))
			all = append(all, k)
		}
		return rows.Err()
	})
	if err == nil {
		err = f.setRowsAside(ctx, aside)
	}
	slices.SortStableFunc(all, func(a, b SavedBudget) int { return b.At.Compare(a.At) })
	return all[:min(len(all), f.o.Counts)], err
}
