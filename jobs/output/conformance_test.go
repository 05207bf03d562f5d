package output_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// kept is a database that the suite runs on.
type kept struct {
	at jobfile.Output
}

func (k kept) open(t *testing.T, o output.Options) *output.Output {
	t.Helper()
	out, err := output.Open(t.Context(), k.at, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}

var orders = output.Description{Name: "orders", Kind: "backfill", Fingerprint: "1", Request: "GET https://api.test/orders?day={date}", Columns: []jobfile.Column{{Name: "price"}}}

// watch is a clock of leases.
type watch struct {
	mu  sync.Mutex
	now time.Time
}

func newWatch() *watch { return &watch{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (w *watch) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *watch) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func job(t *testing.T, o *output.Output, d output.Description) *output.Job {
	t.Helper()
	return must[*output.Job](t)(o.Job(t.Context(), d))
}

func add(t *testing.T, j *output.Job, keys ...string) {
	t.Helper()
	units := make([]output.Unit, len(keys))
	for i, key := range keys {
		units[i] = output.Unit{Key: key, Place: int64(i)}
	}
	must[int64](t)(j.AddUnits(t.Context(), func(yield func(output.Unit, error) bool) {
		for _, u := range units {
			if !yield(u, nil) {
				return
			}
		}
	}, false))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, j *output.Job, n int) (list []*output.Claim) {
	t.Helper()
	for range n {
		if c := must[*output.Claim](t)(j.Claim(t.Context())); c != nil {
			list = append(list, c)
		}
	}
	return list
}

func keys(claims []*output.Claim) string {
	var all []string
	for _, c := range claims {
		all = append(all, c.Key)
	}
	return strings.Join(all, " ")
}

func counts(t *testing.T, j *output.Job) output.Counts {
	t.Helper()
	return must[output.Counts](t)(j.Counts(t.Context()))
}

var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func record(id, unit string, at time.Duration, columns ...any) output.Record {
	if columns == nil {
		columns = []any{nil}
	}
	return output.Record{ID: id, Unit: unit, Fetched: day.Add(at), Body: []byte(`{"id": "` + id + `"}`), Columns: columns}
}

func read(t *testing.T, j *output.Job, since time.Time) (all []output.Record) {
	t.Helper()
	for r, err := range j.Read(t.Context(), since) {
		ok(t, err)
		all = append(all, r)
	}
	return all
}

func ids(records []output.Record) string {
	var all []string
	for _, r := range records {
		all = append(all, r.ID)
	}
	return strings.Join(all, " ")
}

func TestTheSuiteHoldsForSQLite(t *testing.T) {
	suite(t, func(t *testing.T) kept {
		return kept{jobfile.Output{File: filepath.Join(t.TempDir(), "items.db")}}
	})
}

func suite(t *testing.T, fresh func(*testing.T) kept) {
	for _, one := range []struct {
		name string
		run  func(*testing.T, kept)
	}{
		{"units are handed out in their order, each once", unitsAreHandedOutOnce},
		{"any number of units is added", anyNumberOfUnits},
		{"a page and its checkpoint are there after another opening", aPageIsThereAfterwards},
		{"a claim whose lease has ended is lost when another has it", aLeaseEnds},
		{"a unit that was put back waits until its time", aUnitWaits},
		{"what failed is tried again", whatFailedIsTriedAgain},
		{"what is never complete is fetched anew once a day", whatIsNeverComplete},
		{"a unit that is done has what came last", whatCameLast},
		{"a unit is put aside while the job does not have it", aUnitIsPutAsideWhileTheJobDoesNotHaveIt},
		{"any text is kept", anyTextIsKept},
		{"rejected records are kept apart", rejectedRecordsAreKeptApart},
		{"a collection is kept", aCollectionIsKept},
		{"a query only reads", aQueryOnlyReads},
		{"another job of the name is refused", anotherJobIsRefused},
		{"a job without records may become another", aJobWithoutRecordsMayChange},
		{"a page is committed once, whoever crashes", aPageIsCommittedOnce},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, fresh(t)) })
	}
}

func unitsAreHandedOutOnce(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a", "b", "c", "d")
	add(t, j, "a", "b", "c", "d", "e")
	if got := keys(claim(t, j, 2)) + "," + keys(claim(t, j, 9)) + "," + keys(claim(t, j, 9)); got != "a b,c d e," {
		t.Errorf("%q", got)
	}
	if c := counts(t, j); c.Units.Running != 5 || c.Units.Left() != 5 || !c.Earlier.IsZero() {
		t.Errorf("%+v", c)
	}
}

// doneIf is the end of a unit by its last page.
func doneIf(last bool) output.State { return map[bool]output.State{true: output.Done}[last] }

// release ends a claim as a process does that stops.
func release(t *testing.T, j *output.Job, c *output.Claim) {
	t.Helper()
	if err := j.End(t.Context(), c, output.Waiting, time.Time{}, ""); err != nil && !errors.Is(err, output.ErrLost) {
		t.Error(err)
	}
}

func aPageIsThereAfterwards(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a", "b")
	c := claim(t, j, 1)[0]
	ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{record("2", "a", 1, int64(7)), record("1", "a", 0, "x"), record("2", "a", 2, 1.5)}, Checkpoint: []byte("next")}))
	if c.Pages != 1 || c.Records != 2 || string(c.Checkpoint) != "next" {
		t.Errorf("%+v", c)
	}
	release(t, j, c)
	ok(t, o.Close())
	o = k.open(t, output.Options{})
	j = job(t, o, orders)
	again := claim(t, j, 1)[0]
	if again.Key != "a" || string(again.Checkpoint) != "next" || again.Pages != 1 || again.Records != 2 || again.Tries != 0 || again.Lease <= c.Lease {
		t.Errorf("%+v", again)
	}
	ok(t, j.Commit(t.Context(), again, output.Page{Records: []output.Record{record("1", "a", 3*time.Microsecond)}, Ends: output.Done}))
	if got := ids(read(t, j, time.Time{})); got != "2 1" {
		t.Errorf("%q", got)
	}
	if got := ids(read(t, j, day.Add(3*time.Microsecond))); got != "1" {
		t.Errorf("%q", got)
	}
	if c := counts(t, j); c.Units.Done != 1 || c.Units.Waiting != 1 || c.Pages != 2 || c.Records != 3 {
		t.Errorf("%+v", c)
	}
}

func aLeaseEnds(t *testing.T, k kept) {
	clock := newWatch()
	item, two := k.open(t, output.Options{Now: clock.Now}), k.open(t, output.Options{Now: clock.Now})
	a, b := job(t, item, orders), job(t, two, orders)
	add(t, a, "a")
	first := claim(t, a, 1)[0]
	clock.pass(output.LeaseTime - time.Second)
	ok(t, a.Renew(t.Context(), first))
	clock.pass(output.LeaseTime - time.Second)
	if got := claim(t, b, 1); len(got) != 0 {
		t.Errorf("%v was handed out within its lease", keys(got))
	}
	clock.pass(2 * time.Second)
	second := claim(t, b, 1)[0]
	page := output.Page{Records: []output.Record{record("1", "a", 0)}, Ends: output.Done}
	for what, err := range map[string]error{
		"Commit":  a.Commit(t.Context(), first, page),
		"to wait": a.End(t.Context(), first, output.Waiting, day, "slow"),
		"to fail": a.End(t.Context(), first, output.Failed, time.Time{}, "slow"),
	} {
		if !errors.Is(err, output.ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	release(t, a, first)
	if err := a.Renew(t.Context(), first); !errors.Is(err, output.ErrLost) {
		t.Errorf("the claim is not lost: %v", err)
	}
	if got := read(t, a, time.Time{}); len(got) != 0 || first.Pages != 0 {
		t.Errorf("%v was written, %d pages", ids(got), first.Pages)
	}
	ok(t, b.Commit(t.Context(), second, page))
	ok(t, b.Renew(t.Context(), second)) // a unit that is over is not lost
}

// anyNumberOfUnits: a job of 5,000 units, which one transaction adds, did not begin.
func anyNumberOfUnits(t *testing.T, k kept) {
	j := job(t, k.open(t, output.Options{}), orders)
	for _, n := range []int{0, 1, 4999, 5000, 5001, 10000} {
		must[int64](t)(j.AddUnits(t.Context(), func(yield func(output.Unit, error) bool) {
			for i := range n {
				if !yield(output.Unit{Key: strconv.Itoa(i), Place: int64(i), Values: map[string]string{"n": strconv.Itoa(n)}}, nil) {
					return
				}
			}
		}, false))
		if got := counts(t, j).Units.Waiting; got != int64(n) {
			t.Errorf("%d of %d units", got, n)
		}
	}
	if c := claim(t, j, 1)[0]; c.Key != "0" || c.Values["n"] != "10000" {
		t.Errorf("%+v", c)
	}
}

func aUnitWaits(t *testing.T, k kept) {
	clock := newWatch()
	o := k.open(t, output.Options{Now: clock.Now})
	j := job(t, o, orders)
	add(t, j, "a", "b")
	c := claim(t, j, 1)[0]
	ok(t, j.Commit(t.Context(), c, output.Page{Checkpoint: []byte("2")}))
	ok(t, j.End(t.Context(), c, output.Waiting, clock.Now().Add(time.Minute), "503"))
	ok(t, j.End(t.Context(), c, output.Waiting, clock.Now().Add(time.Minute), "503")) // the answer was lost
	if got := counts(t, j); !got.Earlier.Equal(clock.Now().Add(time.Minute)) || got.Units.Waiting != 2 {
		t.Errorf("%+v", got)
	}
	if got := keys(claim(t, j, 9)); got != "b" {
		t.Errorf("%q", got)
	}
	clock.pass(time.Minute)
	again := claim(t, j, 1)[0] // b's lease ends at that time, too; a is before it
	if again.Key != "a" || again.Tries != 1 || string(again.Checkpoint) != "2" {
		t.Errorf("%+v", again)
	}
	ok(t, j.Commit(t.Context(), again, output.Page{Checkpoint: []byte("3")}))
	if again.Tries != 0 {
		t.Errorf("%d tries after a page", again.Tries)
	}
	again.Pages = 0 // the unit begins anew
	for range 2 {
		ok(t, j.End(t.Context(), again, output.Waiting, clock.Now(), "503"))
	}
	clock.pass(time.Second)
	if again = claim(t, j, 1)[0]; again.Key != "a" || again.Pages != 0 || again.Tries != 1 {
		t.Errorf("%+v", again)
	}
}

func whatFailedIsTriedAgain(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a", "b", "c")
	for i, c := range claim(t, j, 3) {
		ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{record(c.Key, c.Key, 0)}, Checkpoint: []byte("2")}))
		switch i {
		case 0:
			ok(t, j.End(t.Context(), c, output.Failed, time.Time{}, "404 \x00 ü"))
		case 1:
			ok(t, j.End(t.Context(), c, output.Incomplete, time.Time{}, "loop"))
		default:
			ok(t, j.Commit(t.Context(), c, output.Page{Ends: output.Done}))
		}
	}
	problems := must[[]output.Problem](t)(j.Problems(t.Context(), 9))
	if len(problems) != 2 || problems[0].Unit != "a" || problems[0].State != output.Failed || problems[0].Reason != "404 \x00 ü" || problems[0].Pages != 1 || problems[1].State != output.Incomplete || problems[1].At.IsZero() {
		t.Errorf("%+v", problems)
	}
	if c := counts(t, j); c.Units.Left() != 0 || c.Units.Done != 1 {
		t.Errorf("%+v", c)
	}
	if n := must[int64](t)(j.Retry(t.Context(), nil, false)); n != 2 {
		t.Errorf("%d units", n)
	}
	claims := claim(t, j, 9)
	if keys(claims) != "a b" || string(claims[0].Checkpoint) != "2" || claims[0].Pages != 1 || claims[1].Checkpoint != nil || claims[1].Pages != 0 {
		t.Errorf("%+v %+v", claims[0], claims[1])
	}
	ok(t, j.End(t.Context(), claims[0], output.Failed, time.Time{}, "404"))
	release(t, j, claims[1])
	must[*output.Claim](t)(j.Claim(t.Context()))
	if n := must[int64](t)(j.Retry(t.Context(), []string{"a", "b", "c", "there is none"}, true)); n != 2 {
		t.Errorf("%d units", n) // a and c, as b is worked on
	}
	if claims := claim(t, j, 1); keys(claims) != "a" || claims[0].Checkpoint != nil || claims[0].Pages != 0 {
		t.Errorf("%+v", claims)
	}
	if claims := claim(t, j, 9); keys(claims) != "c" || claims[0].Checkpoint != nil || claims[0].Pages != 0 {
		t.Errorf("%+v", claims)
	}
}

// whatCameLast: with Replace the records of earlier walks go with the last page of a unit, not before it, and also where the
// clock of the process that fetched them was ahead. What was rejected of a unit goes when it is fetched again.
func whatCameLast(t *testing.T, k kept) {
	d := orders
	d.Replace = true
	j := job(t, k.open(t, output.Options{}), d)
	add(t, j, "a")
	for i, one := range []struct {
		hour  time.Duration
		pages []string // a record each; the unit is done with the last, unless that is empty
		want  string
	}{
		{9, []string{"1", "bad", "2"}, "1 2, 1 rejected"},
		{9, []string{"4", "1"}, "1 4, 0 rejected"},
		{0, []string{"5", "1", "2"}, "1 2 5, 0 rejected"},
		{0, []string{"6", ""}, "1 2 5 6, 0 rejected"},
		{5, []string{"7"}, "6 7, 0 rejected"},
	} {
		for n, id := range one.pages {
			j = job(t, k.open(t, output.Options{}), d) // another process goes on
			c := claim(t, j, 1)[0]
			if r := record(id, c.Key, one.hour*time.Hour); id != "" {
				if id == "bad" {
					r.Rejected = "no id"
				}
				ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{r}, Checkpoint: []byte("next"), Ends: doneIf(n == len(one.pages)-1)}))
			}
			release(t, j, c)
		}
		must[int64](t)(j.Retry(t.Context(), []string{"a"}, true))
		if got := fmt.Sprintf("%s, %d rejected", ids(read(t, j, time.Time{})), counts(t, j).Rejects); got != one.want {
			t.Errorf("walk %d: %s, not %s", i, got, one.want)
		}
	}
}

func whatIsNeverComplete(t *testing.T, k kept) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := k.open(t, output.Options{Now: func() time.Time { return now }})
	j := job(t, o, orders)
	add(t, j, "a", "b", "c")
	run := func() string {
		t.Helper()
		must[int64](t)(j.Retry(t.Context(), nil, false))
		begun := claim(t, j, 9)
		for _, c := range begun {
			state, reason := output.Incomplete, "the next page is one that was read before"
			switch c.Key {
			case "b":
				state, reason = output.NotOver, "its time is not over before 2027"
			case "c":
				state = output.Failed
			}
			ok(t, j.End(t.Context(), c, state, time.Time{}, reason))
		}
		now = now.Add(time.Minute)
		return keys(begun)
	}
	for i := range 20 {
		if got := run(); got != "a b c" {
			t.Fatalf("run %d: %q", i, got)
		}
	}
	if got := run(); got != "b c" {
		t.Errorf("the 21st run: %q", got)
	}
	if n := must[int64](t)(j.Retry(t.Context(), []string{"a"}, false)); n != 3 {
		t.Errorf("%d units, with one that is named", n)
	}
	if now = now.Add(24 * time.Hour); run() != "a b c" {
		t.Error("a day later it is not fetched anew")
	}
	if got := run(); got != "b c" {
		t.Errorf("a minute after that: %q", got)
	}
}

// aUnitIsPutAsideWhileTheJobDoesNotHaveIt checks that it is neither tried nor counted, and goes on as it was.
func aUnitIsPutAsideWhileTheJobDoesNotHaveIt(t *testing.T, k kept) {
	o := k.open(t, output.Options{})
	described := orders
	described.About = func(key string) string { item, _, _ := strings.Cut(key, " since "); return item }
	j := job(t, o, described)
	add(t, j, "failed", "incomplete", "done", "waiting", "worked on since 1", "asked")
	claims := claim(t, j, 5)
	for _, c := range claims[:4] {
		ok(t, j.Commit(t.Context(), c, output.Page{Records: []output.Record{record(c.Key, c.Key, 0)}, Checkpoint: []byte("2"), Ends: doneIf(c.Key == "done")}))
	}
	ok(t, j.End(t.Context(), claims[0], output.Failed, time.Time{}, "404"))
	ok(t, j.End(t.Context(), claims[1], output.Incomplete, time.Time{}, "loop"))
	ok(t, j.End(t.Context(), claims[3], output.Waiting, time.Now().Add(-time.Hour), "503"))
	add(t, j, "asked", "worked on since 2", "new")
	c := counts(t, j)
	if c.Units.Aside != 3 || c.Units.Failed+c.Units.Incomplete != 0 || c.Units.Done != 1 || c.Units.Left() != 4 || c.Records != 4 {
		t.Errorf("%+v", c)
	}
	if n := must[int64](t)(j.Retry(t.Context(), nil, false)); n != 0 || len(must[[]output.Problem](t)(j.Problems(t.Context(), 9))) != 0 {
		t.Errorf("%d units are tried again", n)
	}
	if got := keys(claim(t, j, 9)); got != "worked on since 2 new asked" {
		t.Errorf("%q", got)
	}
	ok(t, j.End(t.Context(), claims[4], output.Failed, time.Time{}, "404"))
	add(t, j, "incomplete", "failed", "waiting") // without one that somebody works on
	problems := must[[]output.Problem](t)(j.Problems(t.Context(), 9))
	if c := counts(t, j); c.Units.Aside != 1 || len(problems) != 0 {
		t.Errorf("%+v %+v", c, problems)
	}
	claims = claim(t, j, 9)
	if keys(claims) != "failed incomplete waiting" || string(claims[0].Checkpoint) != "2" || claims[1].Checkpoint != nil || string(claims[2].Checkpoint) != "2" {
		t.Errorf("%+v", claims)
	}
}
