package page

import (
	"cmp"
	"maps"
	"slices"

	"github.com/abide-proxy/abide/status"
)

// queueRow is the requests of a client and priority that wait at a site.
type queueRow struct {
	Site, Client string
	Priority     int
	N            int
	Longest      float64 // in seconds
	For          string  // what the first of them waits for
	Share        int     // of all that wait, in hundredths
}

// Wait is the longest time that a request has waited.
func (r queueRow) Wait() string { return span(r.Longest) }

// queueTable lists the requests that wait.
type queueTable struct {
	Rows    []queueRow
	N       int
	Hidden  int // requests in no row
	More    bool
	Longest float64
}

// Wait is the longest time that a request has waited.
func (t queueTable) Wait() string { return span(t.Longest) }

// queueOf sums up requests that wait by site, client and priority: most of them first.
func queueOf(holds []status.Hold) (t queueTable) {
	type key struct {
		site, client string
		priority     int
	}
	t.N, t.More = min(len(holds), status.MaxHolds), len(holds) > status.MaxHolds
	rows := map[key]*queueRow{}
	for i := range holds[:t.N] {
		hold := &holds[i]
		at := key{hold.Site, hold.Client, hold.Priority}
		row := rows[at]
		if row == nil {
			wait := status.Wait{Site: hold.Site, Limit: hold.Limit, Why: hold.Why, Asks: hold.Asks}
			row = &queueRow{Site: hold.Site, Client: hold.Client, Priority: hold.Priority, For: wait.For()}
			rows[at] = row
		}
		row.N++
		row.Longest, t.Longest = max(row.Longest, hold.Waited), max(t.Longest, hold.Waited)
	}
	all := slices.SortedFunc(maps.Values(rows), func(a, b *queueRow) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Client, b.Client))
	})
	for i, one := range all {
		if i >= status.MaxListed {
			t.Hidden += one.N
			continue
		}
		one.Share = 100 * one.N / t.N
		t.Rows = append(t.Rows, *one)
	}
	return t
}
