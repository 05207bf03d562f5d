package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 4, 12, 34, 56, 0, time.UTC)

func bandwidth(t testing.TB, f *File, site string, since, until time.Time, step time.Duration) []Row {
	t.Helper()
	list, err := f.Rows(t.Context(), TrafficRows, site, since, until, step)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTrafficIsAddedUpByMinuteAndSite(t *testing.T) {
	f := openFile(t, newPath(t), FileOptions{Now: func() time.Time { return noon }})
	minute := noon.Truncate(time.Minute)
	for range 2 {
		err := f.Record(t.Context(), History{TrafficRows: []Row{
			{Site: "a", Minute: minute, In: 10, Out: 1, Requests: 1},
			{Site: "a", Minute: minute.Add(5 * time.Second), In: 10, Out: 1, Requests: 1},
			{Site: "b", Minute: minute, In: 7, Out: -5, Requests: 1},
			{Site: "a", Minute: minute.Add(-time.Minute), In: 1, Requests: 3},
			{Site: "c", Minute: minute.Add(time.Hour), In: 5},
			{Site: "c", In: 5},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []Row{
		{Site: "a", Minute: minute.Add(-time.Minute), In: 2, Requests: 6},
		{Site: "a", Minute: minute, In: 40, Out: 4, Requests: 4},
		{Site: "b", Minute: minute, In: 14, Requests: 2},
		{Site: "c", Minute: minute, In: 20},
	}
	if got := bandwidth(t, f, "", noon.Add(-time.Hour), noon, time.Minute); !slices.Equal(got, want) {
		t.Errorf("by the minute: %v", got)
	}
	if got := bandwidth(t, f, "a", minute, noon, time.Minute); !slices.Equal(got, want[1:2]) {
		t.Errorf("of one site: %v", got)
	}
	hour := []Row{{Site: "a", Minute: noon.Truncate(time.Hour), In: 42, Out: 4, Requests: 10}}
	if got := bandwidth(t, f, "a", noon.Add(-time.Hour), noon, time.Hour); !slices.Equal(got, hour) {
		t.Errorf("by the hour: %v", got)
	}
	hour[0].Minute = time.Unix(0, 0).UTC()
	if got := bandwidth(t, f, "a", time.Unix(0, 0), noon, 0); !slices.Equal(got, hour) {
		t.Errorf("all in one: %v", got)
	}
	huge := Row{Site: "h", Minute: minute, In: 1<<63 - 1}
	for range 9 {
		if err := f.Record(t.Context(), History{TrafficRows: []Row{huge}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := bandwidth(t, f, "h", minute, noon, time.Minute); len(got) != 1 || got[0].In != maxSum {
		t.Errorf("the largest sum: %v", got)
	}
}

func TestRollingUpKeepsTheSums(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		clock := newWall(noon)
		keep := retention(func(r *Retention) { r.Minutes, r.Hours, r.Days = 3*time.Hour, 4*24*time.Hour, 400*24*time.Hour })
		f, err := OpenFile(t.Context(), filepath.Join(dir, time.Duration(n).String()), FileOptions{pragmas: careless, Now: clock.now, Roll: keep})
		if err != nil {
			r.Fatal(err)
		}
		defer f.Close()
		var in, requests int64
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			var list []Row
			for range rapid.SampledFrom([]int{1, 3, 40, 1500}).Draw(r, "rows") {
				list = append(list, Row{
					Site:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "site"),
					Minute: clock.now().Add(-time.Duration(rapid.IntRange(0, 10*24*60).Draw(r, "ago")) * time.Minute),
					In:     rapid.Int64Range(0, 1000).Draw(r, "in"), Requests: 1,
				})
				in, requests = in+list[len(list)-1].In, requests+1
			}
			if err := f.Record(t.Context(), History{TrafficRows: list}); err != nil {
				r.Fatal(err)
			}
			clock.forward(time.Duration(rapid.IntRange(1, 50*60).Draw(r, "later")) * time.Minute)
		}
		if err := f.Record(t.Context(), History{TrafficRows: []Row{{Site: "a", Minute: clock.now()}}}); err != nil { // brings the chores
			r.Fatal(err)
		}
		f.Close()
		if f, err = OpenFile(t.Context(), f.Path(), FileOptions{pragmas: careless, Now: clock.now, Roll: keep}); err != nil {
			r.Fatal(err)
		}
		defer f.Close()
		for _, step := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour} {
			var gotIn, gotRequests int64
			list, err := f.Rows(t.Context(), TrafficRows, "", time.Unix(0, 0), clock.now().Add(time.Hour), step)
			if err != nil {
				r.Fatal(err)
			}
			for _, one := range list {
				gotIn, gotRequests = gotIn+one.In, gotRequests+one.Requests
			}
			if gotIn != in || gotRequests != requests {
				r.Fatalf("by %v there are %d bytes and %d requests of %d and %d", step, gotIn, gotRequests, in, requests)
			}
		}
	})
}

// However many sites there were, an hour and a day have a bounded number of them, and no
// byte is lost.
func TestRollingUpBoundsTheNumberOfSites(t *testing.T) {
	clock, path := newWall(noon), newPath(t)
	o := FileOptions{Now: clock.now, Roll: retention(func(r *Retention) { r.Sites = 100 })}
	f := openFile(t, path, o)
	hour := noon.Truncate(time.Hour)
	var list []Row
	for i := range 5000 {
		list = append(list, Row{Site: fmt.Sprint("site ", i), Minute: hour.Add(time.Duration(i/100) * time.Minute), In: 1, Requests: 1})
	}
	list = append(list, Row{Site: "site 0", Minute: hour.Add(59 * time.Minute), In: 1, Requests: 1})
	if err := f.Record(t.Context(), History{TrafficRows: list}); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{3 * 24 * time.Hour, 90 * 24 * time.Hour} {
		clock.at.Store(noon.Add(later).UnixMicro())
		if err := f.Put(t.Context(), "x", "y", []byte("z"), time.Time{}); err != nil { // brings the chores
			t.Fatal(err)
		}
		f.done.Wait()
		got, in := map[string]int64{}, int64(0)
		for _, one := range bandwidth(t, f, "", time.Unix(0, 0), clock.now(), time.Minute) {
			got[one.Site] += one.In
			in += one.In
		}
		if len(got) > 100+maxRowsPerStep+1 || in != 5001 || got[Others] < 3900 || got["site 0"] != 2 {
			t.Errorf("%v later there are %d sites with %d, %d of them of others and %d of the first", later, len(got), in, got[Others], got["site 0"])
		}
	}
}

func TestOldTrafficIsKeptByTheHourThenByTheDayThenDropped(t *testing.T) {
	clock, path := newWall(noon), newPath(t)
	o := FileOptions{Now: clock.now}
	at := func(later time.Duration) (list []Row) {
		clock.at.Store(noon.Add(later).UnixMicro())
		f := openFile(t, path, o)
		// Someone writes, and what is left over is done when the file is closed.
		for range 3 {
			if err := f.Put(t.Context(), "x", "y", []byte("z"), time.Time{}); err != nil {
				t.Fatal(err)
			}
			f.done.Wait()
		}
		list = bandwidth(t, f, "", time.Unix(0, 0), clock.now(), time.Minute)
		f.Close()
		return list
	}
	f := openFile(t, path, o)
	for i := range 2500 { // more than are done at once
		if err := f.Record(t.Context(), History{TrafficRows: []Row{{Site: "s", Minute: noon.Add(-time.Duration(i) * time.Minute), In: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	const day = 24 * time.Hour
	for _, want := range []struct {
		later time.Duration
		rows  int
	}{{0, 2500}, {4 * day, 43}, {100 * day, 3}, {6 * 365 * day, 0}} {
		got, total := at(want.later), int64(0)
		for _, one := range got {
			total += one.In
		}
		if len(got) != want.rows || (want.rows > 0 && total != 2500) {
			t.Errorf("%v later there are %d rows with %d", want.later, len(got), total)
		}
	}
}

func TestNothingIsRolledUpTooEarlyOrInParts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := time.Unix(rapid.Int64Range(0, 1<<33).Draw(r, "now"), 0)
		length := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1e7).Draw(r, name)) * time.Second
		}
		keep := Retention{Minutes: length("minutes"), Hours: length("hours"), Days: length("days")}
		list := keep.rollUps(now)
		ages := []time.Duration{keep.Minutes, keep.Hours, keep.Days}
		for i, one := range list {
			step := one.into
			if step == 0 {
				step = one.from
			}
			if one.before%step != 0 {
				r.Fatalf("%+v is not at an edge", one)
			}
			if one.before > now.Add(-ages[i]).Unix() {
				r.Fatalf("%+v is younger than %v", one, ages[i])
			}
			if i > 0 && one.before > list[i-1].before {
				r.Fatalf("%+v would take what comes later from %+v", one, list[i-1])
			}
		}
	})
}

// A file that is larger than it may be keeps traffic for less long, and loses nothing else.
// The sums stay, as far as they are not too old for any of it.
func TestTheFileStaysWithinItsBytes(t *testing.T) {
	clock, path, said := newWall(noon), newPath(t), 0
	f := openFile(t, path, FileOptions{Now: clock.now, Roll: retention(func(r *Retention) { r.Bytes = 2 << 20 }), Log: func(string, ...any) { said++ }})
	say(t, f, counts("s", "k", 1, 7))
	in := int64(0)
	for minute := range 24 * 60 {
		var list []Row
		for i := range 40 {
			list = append(list, Row{Site: fmt.Sprint("a site with some name ", i), Minute: noon.Add(time.Duration(minute-24*60) * time.Minute), In: 1, Requests: 1})
			in++
		}
		if err := f.Record(t.Context(), History{TrafficRows: list}); err != nil {
			t.Fatal(err)
		}
	}
	use := func() (used int64) {
		var pages, unused int64
		d := f.disk.Load()
		for query, to := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &unused} {
			if err := d.readers.QueryRowContext(t.Context(), query).Scan(to); err != nil {
				t.Fatal(err)
			}
		}
		return (pages - unused) * 4096
	}
	before := use()
	for range 100 {
		clock.forward(61 * time.Second)
		if err := f.Put(t.Context(), "x", "y", []byte("z"), time.Time{}); err != nil { // brings the chores
			t.Fatal(err)
		}
		f.done.Wait()
	}
	if now := use(); now > 2<<20 {
		t.Errorf("%d bytes are in use, after %d", now, before)
	}
	got := int64(0)
	for _, one := range bandwidth(t, f, "", time.Unix(0, 0), clock.now(), time.Minute) {
		got += one.In
	}
	if got != in {
		t.Errorf("of %d bytes %d are left", in, got)
	}
	if k := recall(t, f)["s k"]; k.Ahead != 7 || said == 0 || said > maxHalvings {
		t.Errorf("%+v, said %d times: %v", k, said, lines(f))
	}
}

// retention is the usual one with some changes.
func retention(change func(*Retention)) Retention {
	r := usualRetention
	change(&r)
	return r
}
