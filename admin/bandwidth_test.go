package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestThePastIsToldBySteps(t *testing.T) {
	asked := ""
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Bandwidth = func(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("it may take for ever")
			}
			asked = fmt.Sprint(site, " ", since.Format(time.RFC3339), " ", until.Format(time.RFC3339), " ", step)
			switch site {
			case "none":
				return nil, nil
			case "ill":
				return nil, errors.New("the disk\nis ill")
			}
			return []status.Traffic{
				{Site: "b.test", Start: since.In(time.FixedZone("", 3600)), In: 5, Out: 6, Requests: 7},
				{Site: "a.test", Start: since, In: 1, Out: 2, Requests: 3},
			}, nil
		}
	})
	r := b.get("/api/v1/bandwidth?since=2026-03-01T12:34:56Z&until=2026-03-02T12:00:00%2B01:00&step=1h&site=x.test")
	want := `{"since":"2026-03-01T12:00:00Z","until":"2026-03-02T11:00:00Z","step":"1h","traffic":[` +
		`{"site":"a.test","start":"2026-03-01T12:00:00Z","bytes_received":1,"bytes_sent":2,"requests":3},` +
		`{"site":"b.test","start":"2026-03-01T12:00:00Z","bytes_received":5,"bytes_sent":6,"requests":7}],"more":false}` + "\n"
	if r.StatusCode != 200 || r.body != want || asked != "x.test 2026-03-01T12:00:00Z 2026-03-02T11:00:00Z 1h0m0s" {
		t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/bandwidth?site=none"); r.StatusCode != 200 || !strings.Contains(r.body, `"step":"1h","traffic":[],"more":false`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/bandwidth?site=ill"); r.StatusCode != 503 || !strings.Contains(r.body, "the disk is ill") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, query := range []string{
		"?step=2m", "?step=60s", "?since=x", "?since=-1h", "?since=1h&until=2h", "?until=2026", "?since=365d&step=1m", "?since=99999d&step=1d", "?since=1e9d", "?since=d",
		"?since=0001-01-01T00:00:00Z", "?since=9999-01-01T00:00:00Z", "?since=1h&since=2h", "?from=1h", "?%zz",
	} {
		if r := b.get("/api/v1/bandwidth" + query); r.StatusCode != 400 || !json.Valid([]byte(r.body)) {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
}

func TestAPeriodBeginsWithAWholeStep(t *testing.T) {
	now := midday.Add(34 * time.Minute)
	for _, one := range []struct{ since, until, step, want string }{
		{"", "", "1h", "2026-11-20 12:00 2026-11-21 12:34 1h0m0s"},
		{"", "", "", "2026-11-20 12:34 2026-11-21 12:34 0s"},
		{"7d", "", "1d", "2026-11-14 00:00 2026-11-21 12:34 24h0m0s"},
		{"90m", "30m", "1m", "2026-11-21 11:04 2026-11-21 12:04 1m0s"},
		{"3650d", "1d", "1d", "2016-11-23 00:00 2026-11-20 12:34 24h0m0s"},
		{"2026-11-21T12:00:00+02:00", "", "1h", "2026-11-21 10:00 2026-11-21 12:34 1h0m0s"},
	} {
		since, until, by, err := readPeriod(one.since, one.until, one.step, now)
		const form = "2006-01-02 15:04"
		if got := fmt.Sprint(since.Format(form), " ", until.Format(form), " ", by); err != nil || got != one.want {
			t.Errorf("%+v: %s, %v", one, got, err)
		}
	}
}

func TestTrafficIsListedUpToABound(t *testing.T) {
	list := status.TrafficList{Traffic: make([]status.Traffic, status.MaxTraffic+1)}
	if list.Normalize(); len(list.Traffic) != status.MaxTraffic || !list.More {
		t.Errorf("%d, %v", len(list.Traffic), list.More)
	}
}
