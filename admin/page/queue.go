package page

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

// waitRow is the requests that wait at a site for the same limit.
type waitRow struct {
	status.Wait
	Share int    // of all that wait, in hundredths
	Next  string // when the first of them goes
}

// queueRow is the requests of a client and priority that wait at a site.
type queueRow struct {
	Site, Client string
	Priority     int
	N            int
	Longest      float64 // in seconds
	Share        int     // of all that wait, in hundredths
}

// queueTable lists the requests that wait.
type queueTable struct {
	For     folded[waitRow]
	Rows    folded[*queueRow]
	N       int
	More    bool
	Longest float64   // in seconds
	Last    time.Time // when the last of those goes of which that is known; zero: of none, or not of all and soon
	LastAt  string    // its site
	Known   bool      // when each goes
}

// queueOf sums up requests that wait, by limit and by site, client and priority: most of them first.
func queueOf(f *Facts, learnt []*learned, now time.Time) (t queueTable) {
	type key struct {
		site, client string
		priority     int
	}
	t.N, t.More = min(len(f.Holds), status.MaxHolds), len(f.Holds) > status.MaxHolds
	rows := map[key]*queueRow{}
	t.Known = !t.More
	for i := range f.Holds[:t.N] {
		hold := &f.Holds[i]
		at := key{hold.Site, hold.Client, hold.Priority}
		row := rows[at]
		if row == nil {
			row = &queueRow{Site: hold.Site, Client: hold.Client, Priority: hold.Priority}
			rows[at] = row
		}
		row.N++
		row.Longest, t.Longest = max(row.Longest, hold.Waited), max(t.Longest, hold.Waited)
		t.Known = t.Known && !hold.Expected.IsZero()
		if goes := cmp.Or(hold.Expected, hold.Until); goes.After(t.Last) {
			t.Last, t.LastAt = goes, hold.Site
		}
	}
	if !t.Known && t.Last.Sub(now) < time.Minute {
		t.Last = time.Time{}
	}
	all := slices.SortedFunc(maps.Values(rows), func(a, b *queueRow) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Client, b.Client))
	})
	t.Rows = fold(all, status.MaxListed, func(row *queueRow) *queueRow {
		row.Share = 100 * row.N / t.N
		return row
	})
	if f.Waiting != nil {
		t.For = fold(f.Waiting.List, 4, func(w status.Wait) waitRow {
			w.Limit = measured(w.Site, w.Limit, learnt)
			return waitRow{w, 100 * w.N / max(t.N, 1), w.Ends(now)}
		})
	}
	return t
}
