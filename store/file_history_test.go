package store

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestUsageAndBlockedTimeAreAddedUp(t *testing.T) {
	f := openFile(t, newPath(t), FileOptions{Now: func() time.Time { return noon }})
	minute := noon.Truncate(time.Minute)
	for range 2 {
		err := f.Record(t.Context(), History{
			UsageRows: []Row{
				{Site: "a", Client: "news", Priority: 3, Token: "alice", Minute: minute, Requests: 5, Refusals: 1, Waited: 1500 * time.Millisecond, In: 100, Out: 7},
				{Site: "a", Client: "news", Token: "alice", Minute: minute, Requests: 1},
				{Site: "a", Client: "news", Priority: 3, Token: "alice", Minute: minute.Add(-2 * time.Hour), Requests: 1},
			},
			BlockedRows: []Row{
				{Site: "a", Limit: "5 per 1m", Minute: minute, Held: 90 * time.Second, Busy: 30 * time.Second},
				{Site: "b", Limit: "cooldown", Minute: minute, Held: time.Second, Busy: time.Second},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	usage, err := f.Rows(t.Context(), UsageRows, "a", noon.Add(-time.Hour), noon, 0)
	want := []Row{
		{Site: "a", Client: "news", Token: "alice", Minute: noon.Add(-time.Hour).UTC(), Requests: 2},
		{Site: "a", Client: "news", Priority: 3, Token: "alice", Minute: noon.Add(-time.Hour).UTC(), Requests: 10, Refusals: 2, Waited: 3 * time.Second, In: 200, Out: 14},
	}
	if err != nil || !slices.Equal(usage, want) {
		t.Errorf("%v %v, want %v", usage, err, want)
	}
	blocked, err := f.Rows(t.Context(), BlockedRows, "", noon.Add(-time.Hour), noon, time.Hour)
	if err != nil || len(blocked) != 2 || blocked[0].Held != 3*time.Minute || blocked[0].Busy != time.Minute || blocked[1].Site != "b" {
		t.Errorf("%v %v", blocked, err)
	}
}

// TestFailuresAreAddedUpAlsoInAFileOfBefore: a file of version 3 has no table of them.
func TestFailuresAreAddedUpAlsoInAFileOfBefore(t *testing.T) {
	path, clock := newPath(t), newWall(noon)
	usage := History{UsageRows: []Row{{Site: "a", Minute: noon, Requests: 5}}}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(slices.Clone(migrations[:3]),
		fmt.Sprintf("INSERT INTO meta VALUES ('version', 3); PRAGMA application_id = %d; PRAGMA user_version = 3", applicationID),
		fmt.Sprintf("INSERT INTO usage VALUES (60, %d, 'a', '', 0, '', 5, 0, 0, 0, 0)", noon.Unix())) {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	f := openFile(t, path, FileOptions{Now: clock.now, Roll: retention(func(r *Retention) { r.Minutes = time.Hour })})
	for range 2 {
		usage[FailedRows] = []Row{{Site: "a", What: "402", Minute: noon, Requests: 3}, {Site: "b", What: "wait", Minute: noon, Requests: 1}}
		if err := f.Record(t.Context(), usage); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 { // each write brings a part of the maintenance
		clock.forward(time.Hour)
		if err := f.Put(t.Context(), "k", "k", nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for site, want := range map[string]string{"a": "[402 6]", "": "[402 6 wait 2]"} {
		failed, err := f.Rows(t.Context(), FailedRows, site, noon.Add(-time.Hour), noon.Add(time.Hour), 0)
		var got []any
		for _, one := range failed {
			got = append(got, one.What, one.Requests)
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v %v", site, got, err)
		}
	}
	if kept, err := f.Rows(t.Context(), UsageRows, "a", noon.Add(-time.Hour), noon.Add(time.Hour), 0); err != nil || len(kept) != 1 || kept[0].Requests != 15 {
		t.Error(kept, err)
	}
}

// What is old is summed up by the hour. A step has no more rows than it may have, and the
// sums stay what they were.
func TestUsageIsSummedUpAndBounded(t *testing.T) {
	clock := newWall(noon)
	f := openFile(t, newPath(t), FileOptions{Now: clock.now, Roll: retention(func(r *Retention) { r.Minutes, r.Sites = time.Hour, 3 })})
	for i := range 8 {
		key := Key{Site: fmt.Sprintf("s%d", i%4), Client: fmt.Sprintf("c%d", i)}
		history := History{
			UsageRows:   []Row{{Site: key.Site, Client: key.Client, Priority: i, Token: "t", Minute: noon, Requests: 1, Waited: time.Second}},
			BlockedRows: []Row{{Site: key.Site, Limit: fmt.Sprintf("l%d", i), Minute: noon, Held: 2 * time.Second, Busy: time.Second}},
		}
		if err := f.Record(t.Context(), history); err != nil {
			t.Fatal(err)
		}
		for range 4 { // each write brings a part of the maintenance
			clock.forward(time.Hour)
			if err := f.Record(t.Context(), History{TrafficRows: []Row{{Site: "x", Minute: clock.now(), In: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	usage, err := f.Rows(t.Context(), UsageRows, "", noon.Add(-time.Hour), noon.Add(time.Hour), time.Minute)
	requests, waited, others := int64(0), time.Duration(0), 0
	for _, one := range usage {
		requests, waited = requests+one.Requests, waited+one.Waited
		if one.Site == Others && one.Client == Others && one.Token == Others {
			others++
		}
		if one.Minute.Minute() != 0 {
			t.Errorf("%+v is not summed up", one)
		}
	}
	if err != nil || requests != 8 || waited != 8*time.Second || others == 0 {
		t.Errorf("%v: %d requests, %v, %d rows of others in %v", err, requests, waited, others, usage)
	}
	blocked, err := f.Rows(t.Context(), BlockedRows, "", noon.Add(-time.Hour), noon.Add(time.Hour), 0)
	held := time.Duration(0)
	for _, one := range blocked {
		held += one.Held
	}
	if err != nil || held != 16*time.Second || len(blocked) > 4 {
		t.Errorf("%v: %v in %v", err, held, blocked)
	}
}
