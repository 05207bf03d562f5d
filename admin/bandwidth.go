package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// Bounds of what is told of the past: how many steps may be asked for, and how long looking
// them up may take.
const (
	mostSteps = 10_000
	patience  = 10 * time.Second
)

// steps are those that can be asked for.
var steps = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour, "1d": 24 * time.Hour}

// bandwidth tells what went from and to ?site=, or each, since ?since= until ?until=,
// by ?step=.
func bandwidth(from Process, w http.ResponseWriter, r *http.Request) {
	query, ok := queryOf(w, r, "site", "since", "until", "step")
	if !ok {
		return
	}
	list := status.TrafficList{Step: cmp.Or(query.Get("step"), "1h")}
	since, until, step, err := readPeriod(query.Get("since"), query.Get("until"), list.Step, time.Now())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	list.Since, list.Until = since, until
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if list.Traffic, err = from.Bandwidth(ctx, query.Get("site"), list.Since, list.Until, step); err != nil {
		refuse(w, http.StatusServiceUnavailable, status.ErrorLine(err))
		return
	}
	list.Normalize()
	answerJSON(w, list)
}

// readPeriod is the time that is asked about, in whole steps from its beginning. A step of ""
// is the whole time, from a full minute on.
func readPeriod(since, until, step string, now time.Time) (from, to time.Time, by time.Duration, err error) {
	by, ok := steps[step]
	if !ok && step != "" {
		return from, to, 0, errors.New("step must be 1m, 1h or 1d")
	}
	if to, err = moment(cmp.Or(until, "0s"), now); err != nil {
		return from, to, 0, fmt.Errorf("until %w", err)
	}
	if from, err = moment(cmp.Or(since, "24h"), now); err != nil {
		return from, to, 0, fmt.Errorf("since %w", err)
	}
	from = from.Truncate(cmp.Or(by, time.Minute))
	switch n := to.Sub(from) / cmp.Or(by, to.Sub(from), 1); {
	case !from.Before(to):
		return from, to, 0, errors.New("since must be before until")
	case n > mostSteps:
		return from, to, 0, fmt.Errorf("these are more than %d steps; take a longer one", mostSteps)
	}
	return from, to, by, nil
}

var errMoment = errors.New("must be a time back from now such as 24h or 7d, or one such as 2026-03-01T12:00:00Z")

// moment is a time as RFC 3339 has it, or as long as that ago.
func moment(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Year() < 1970 || at.Year() > 9000 {
			return at, errMoment
		}
		return at.UTC(), nil
	}
	back, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		back, err = time.ParseDuration(days + "h")
		if back > 10*365*24*time.Hour/24 {
			return now, errMoment
		}
		back *= 24
	}
	if err != nil || back < 0 || back > 10*365*24*time.Hour {
		return now, errMoment
	}
	return now.Add(-back).UTC(), nil
}
