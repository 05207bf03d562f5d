package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestTheProgressOfAJobIsALineEachTenSeconds(t *testing.T) {
	var out bytes.Buffer
	p, now := &jobProgress{lines: &out}, time.Unix(1_000_000, 0)
	s := status.Job{
		Name: "orders", State: status.JobRunning, Output: "orders.db", Units: status.JobUnits{Total: 365, Done: 30, Failed: 1, Waiting: 334},
		Pages: 90, Records: 900, Rate: 5000, Limited: "api.test until 10:00, limit: 5000 a day", Ends: now.Add(time.Hour), Started: now, Run: &status.JobRun{Requests: 9, Records: 84},
	}
	for i := range 60 {
		p.update(s, now.Add(time.Duration(i)*time.Second/2))
	}
	s.Units = status.JobUnits{Total: 365, Done: 364, Failed: 1}
	p.close(s, now.Add(90*time.Second))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines in half a minute, and the last:\n%s", len(lines), &out)
	}
	for i, want := range []string{
		"abide: orders: 30 of 365 units, 1 failed, 900 records on 90 pages, 5 000/s, ends in 59m50s; api.test until 10:00, limit: 5000 a day",
		"abide: orders: 30 of 365 units, 1 failed, 900 records on 90 pages, 5 000/s, ends in 59m40s; api.test until 10:00, limit: 5000 a day",
		"abide: orders: 364 of 365 units, 1 failed; this run: 9 requests, 84 records in 1m30s; all runs: 900 records came, in orders.db",
	} {
		if lines[i] != want {
			t.Errorf("\n got %s\nwant %s", lines[i], want)
		}
	}
}

func TestAJobThatWasStoppedSaysWhatItWaitedFor(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", "orders was stopped; the same command goes on where it ended"},
		{"api.test until 10:00, limit: 5 a day", "", "where it ended; it waited for api.test until 10:00, limit: 5 a day"},
		{"api.test", "the site answered 503", "where it ended; the last try has failed: the site answered 503; it waited for api.test"},
	} {
		if got := stoppedText("orders", c[0], c[1]); !strings.HasSuffix(got, c[2]) {
			t.Error(got)
		}
	}
}

func TestAJobThatShouldBeOverEndsAtNoTime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := status.Job{Name: "orders", Units: status.JobUnits{Total: 2, Waiting: 1, Done: 1}, Ends: now.Add(time.Millisecond)}
	for range 2 {
		if text := jobText(s, now); strings.Contains(text, "ends") {
			t.Error(text)
		}
		s.Ends = now.Add(-time.Hour)
	}
}

func TestTheProgressOfAJobIsAnEventEachSecond(t *testing.T) {
	var out bytes.Buffer
	p, now := &jobProgress{events: json.NewEncoder(&out)}, time.Unix(1_000_000, 0)
	for i := range 20 {
		p.update(status.Job{Name: "orders", State: status.JobRunning}, now.Add(time.Duration(i)*time.Second/2))
	}
	p.close(status.Job{Name: "orders", State: status.JobDone}, now.Add(10*time.Second))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last status.Job
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 11 || last.State != status.JobDone {
		t.Errorf("%d events, the last %+v, %v", len(lines), last, err)
	}
}

func TestAProgressBarIsFullAtTheEnd(t *testing.T) {
	for done, want := range map[int64]string{0: "[                    ]", 5: "[==========          ]", 10: "[====================]"} {
		if got := jobBar(status.Job{Units: status.JobUnits{Total: 10, Done: done, Waiting: 10 - done}}); got != want {
			t.Errorf("%d of 10: %s", done, got)
		}
	}
}
