package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/status"
)

const (
	// jobLineEvery is the time between two lines about a job where there is no terminal.
	jobLineEvery = 10 * time.Second
	// jobEventEvery is the time between two JSON lines.
	jobEventEvery = time.Second
	// barWidth is the width of a progress bar in characters.
	barWidth = 20
)

// jobProgress shows how far a job is: in the status line of a terminal, or in lines, or as JSON
// lines. The zero value shows nothing.
type jobProgress struct {
	console *liveLine     // nil: there is no terminal
	lines   io.Writer     // nil: there are no lines
	events  *json.Encoder // nil: there are no JSON lines
	next    time.Time     // of the next line
}

// update shows a status.
func (p *jobProgress) update(s status.Job, now time.Time) {
	switch {
	case p.events != nil && !now.Before(p.next):
		p.next = now.Add(jobEventEvery)
		_ = p.events.Encode(s) // a reader that is gone does not matter
	case p.console != nil:
		p.console.show(jobBar(s) + " " + jobText(s, now))
	case p.lines != nil && !now.Before(p.next):
		if !p.next.IsZero() {
			fmt.Fprintln(p.lines, "abide: "+jobText(s, now))
		}
		p.next = now.Add(jobLineEvery)
	}
}

// close shows the last status.
func (p *jobProgress) close(s status.Job, now time.Time) {
	if p.console != nil {
		p.console.show("")
	}
	s.Rate, s.Ends, s.Limited = 0, time.Time{}, "" // nothing goes on
	switch {
	case p.events != nil:
		_ = p.events.Encode(s) // a reader that is gone does not matter
	case p.lines != nil:
		took := ""
		if !s.Started.IsZero() {
			took = " in " + sitelog.InSeconds(now.Sub(s.Started))
		}
		fmt.Fprintf(p.lines, "abide: %s%s; the records are in %s\n", jobText(s, now), took, s.Output)
	}
}

// jobBar is a progress bar.
func jobBar(s status.Job) string {
	full := 0
	if s.Units.Total > 0 {
		full = int(barWidth * (s.Units.Total - s.Units.Left()) / s.Units.Total)
	}
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
}

// jobText is a status in a line.
func jobText(s status.Job, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d units", s.Name, s.Units.Done, s.Units.Total)
	if s.Units.Failed > 0 {
		fmt.Fprintf(&b, ", %d failed", s.Units.Failed)
	}
	if s.Units.Incomplete > 0 {
		fmt.Fprintf(&b, ", %d incomplete", s.Units.Incomplete)
	}
	fmt.Fprintf(&b, ", %s on %s", countText(int(s.Records), "record"), countText(int(s.Pages), "page"))
	if s.Units.Left() == 0 {
		return b.String()
	}
	if s.Rate >= 0.1 {
		fmt.Fprintf(&b, ", %.3g/s", s.Rate)
	}
	if !s.Ends.IsZero() {
		fmt.Fprintf(&b, ", ends in %s", sitelog.InSeconds(max(s.Ends.Sub(now), 0)))
	}
	switch {
	case s.State == status.JobPaused:
		b.WriteString("; paused")
	case s.Limited != "":
		b.WriteString("; " + s.Limited)
	}
	return b.String()
}
