package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// stages is a rule that changes: each holds for a time, and the last one for ever. With windows
// of the clock and a time of whole windows it changes between two windows.
type stages struct {
	each  time.Duration
	rules []rule
	began time.Time
}

func (s *stages) index(now time.Time) int {
	if s.began.IsZero() {
		s.began = now.Truncate(s.each)
	}
	return min(int(now.Sub(s.began)/s.each), len(s.rules)-1)
}

func (s *stages) next(now time.Time, cost float64) time.Time {
	for i := s.index(now); ; i++ {
		at := s.rules[i].next(now, cost)
		change := s.began.Add(time.Duration(i+1) * s.each)
		if i == len(s.rules)-1 || at.Before(change) {
			return at
		}
		now = change
	}
}

func (s *stages) take(now time.Time, cost float64) { s.rules[s.index(now)].take(now, cost) }
func (s *stages) refuse(now time.Time)             { s.rules[s.index(now)].refuse(now) }

// growing refuses everything for some time after an excess, each time for twice as long.
type growing struct {
	rule
	length time.Duration
	until  time.Time
}

func (g *growing) next(now time.Time, cost float64) time.Time {
	if now.Before(g.until) {
		return g.until
	}
	return g.rule.next(now, cost)
}

func (g *growing) refuse(now time.Time) {
	if !now.Before(g.until) {
		g.until, g.length = now.Add(g.length), 2*g.length
	}
}

// told is what a rule announces, as state returns it; of rules that change it is what holds now.
func told(r rule, now time.Time) (amount, left int, back time.Time) {
	if s, ok := r.(*stages); ok {
		r = s.rules[s.index(now)]
	}
	return state(r, now)
}

// fields announces the first rule by three headers; an empty name is left out.
func fields(limit, left, reset string, when func(now, end time.Time) string) func(*said, http.Header) {
	return func(s *said, h http.Header) {
		amount, n, end := told(s.rules[0], s.now)
		if limit != "" {
			h.Set(limit, strconv.Itoa(amount))
		}
		h.Set(left, strconv.Itoa(n))
		h.Set(reset, when(s.now, end))
	}
}

// each announces some rules by three headers each, of which the pattern has the name of the
// rule and of the field.
func each(pattern string, names []string, words [3]string, when func(now, end time.Time) string) func(*said, http.Header) {
	return func(s *said, h http.Header) {
		for i, name := range names {
			amount, left, end := told(s.rules[i], s.now)
			for j, text := range []string{strconv.Itoa(amount), strconv.Itoa(left), when(s.now, end)} {
				h.Set(fmt.Sprintf(pattern, name, words[j]), text)
			}
		}
	}
}

// duration is a reset as Go writes durations, in milliseconds, rounded up.
func duration(now, end time.Time) string {
	return (max(end.Sub(now), 0) + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// date is a reset as RFC 3339 in seconds, rounded up.
func date(_, end time.Time) string {
	return end.Add(time.Second - 1).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// epochCeil is a reset as Unix seconds, rounded up.
func epochCeil(_, end time.Time) string {
	return strconv.FormatInt(end.Add(time.Second-1).Unix(), 10)
}
