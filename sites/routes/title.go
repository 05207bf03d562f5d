package routes

import (
	"cmp"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Bounds of stored names and titles, in bytes.
const (
	longestTitle = 64
	longestID    = 128
)

// HiddenTitle is the title of a limit that the site does not announce.
const HiddenTitle = "a limit that the site does not announce"

// entitle returns the title of a limit as it is shown: "75 per 15m", "5000 of core".
func (g *group) entitle() string {
	what := cmp.Or(g.bucket, g.key.name)
	if !g.amount.Known {
		if what == "" {
			what = unitOf(g.key.unit)
		}
		if g.key.entity != "" {
			what = g.key.entity + " " + what
		}
		return bound(what, longestTitle)
	}
	title := amountOf(g.amount.N)
	if g.key.unit != learn.Requests && g.key.unit != learn.Percent {
		title += " " + string(g.key.unit)
	}
	if g.key.entity != "" { // before the end, which may be cut off
		title += " in " + g.key.entity
	}
	switch {
	case g.window > 0:
		title += " per " + windowOf(g.window)
	case what != "" && what != string(g.key.unit):
		title += " of " + what
	case g.key.unit == learn.Requests:
		title += " requests"
	}
	return bound(title, longestTitle)
}

func unitOf(u learn.Unit) string {
	if u == learn.Requests {
		return "requests"
	}
	return string(u)
}

func amountOf(n float64) string {
	if math.Abs(n) >= 1e15 {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
}

// windowOf writes a window in the largest unit that it is a whole number of.
func windowOf(d time.Duration) string {
	for _, one := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= one.unit && d%one.unit == 0 {
			return strconv.FormatInt(int64(d/one.unit), 10) + one.name
		}
	}
	return d.String()
}

// believed returns an amount if it is a finite number.
func believed(a learn.Amount) learn.Amount {
	if math.IsNaN(a.N) || math.IsInf(a.N, 0) {
		return learn.Amount{}
	}
	return a
}

// bound makes printable ASCII of a text, of at most so many bytes.
func bound(text string, most int) string {
	text = text[:min(len(text), most)]
	if printable(text) {
		return text
	}
	return strings.Map(func(c rune) rune {
		if odd(c) {
			return '?'
		}
		return c
	}, text)
}

func printable(text string) bool { return !strings.ContainsFunc(text, odd) }

func odd(c rune) bool { return c < ' ' || c > '~' }

// bounded returns the stored form of a server's name: unchanged if it is short and printable,
// else cut, with a hash of all of it.
func bounded(name string) string {
	if len(name) <= longestID && printable(name) {
		return name
	}
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return bound(name, longestID/2) + "~" + strconv.FormatUint(sum.Sum64(), 16)
}
