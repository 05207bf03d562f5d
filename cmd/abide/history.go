package main

import (
	"context"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// newHistory is what keeps the counts of each minute.
func (a *program) newHistory() *history.Recorder {
	o := history.Options{Sites: a.metrics.Sites, Blocked: func() []dispatch.Blocked { return a.proxy.Blocked() }, Log: a.log}
	if a.kept != nil && a.kept.file != nil {
		o.File = a.kept.file
	}
	return history.New(o)
}

// countEnded counts a request or a tunnel that has ended.
func (a *program) countEnded(r dispatch.Report) {
	requests := int64(1)
	if r.Tunnel {
		requests = 0
	}
	a.history.See(r.Client, r.Address, time.Now())
	a.history.Count(store.Usage{
		UsageKey: store.UsageKey{Site: r.Site, Client: r.Client, Priority: r.Priority, Token: r.Token},
		Requests: requests, Refusals: int64(r.Refusals), Waited: r.Waited, In: r.Received, Out: r.Uploaded,
	})
}

// Bandwidth is the recorded traffic of a site, or of all sites.
func (c adminProcess) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
	kept, err := c.history.Bandwidth(ctx, site, since, until, step)
	list := make([]status.Traffic, len(kept))
	for i, one := range kept {
		list[i] = status.Traffic{Site: one.Site, Start: one.Minute, In: one.In, Out: one.Out, Requests: one.Requests}
	}
	return list, err
}

// Report is what became of requests, by site, client, token or priority, and which limits held
// them.
func (c adminProcess) Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (r status.Report, err error) {
	return reportOf(ctx, c.history, by, site, since, until, step)
}

// reportOf makes a report of what is recorded.
func reportOf(ctx context.Context, from *history.Recorder, by, site string, since, until time.Time, step time.Duration) (r status.Report, err error) {
	usage, err := from.UsageBy(ctx, by, site, since, until, step)
	if err != nil {
		return r, err
	}
	blocked, err := from.Blocked(ctx, site, since, until, step)
	for _, u := range usage {
		r.Rows = append(r.Rows, status.ReportRow{
			Start: u.Minute, Name: nameIn(u.UsageKey, by), Requests: u.Requests, Refusals: u.Refusals,
			Waited: u.Waited.Seconds(), In: u.In, Out: u.Out,
		})
	}
	for _, b := range blocked {
		r.Limits = append(r.Limits, status.ReportBlocked{Start: b.Minute, Site: b.Site, Limit: b.Limit, Held: b.Held.Seconds(), Busy: b.Busy.Seconds()})
	}
	return r, err
}

// nameIn is the part of a key that a report is by.
func nameIn(k store.UsageKey, by string) string {
	switch by {
	case "client":
		return k.Client
	case "token":
		return k.Token
	case "priority":
		return strconv.Itoa(k.Priority)
	}
	return k.Site
}
