package page

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// view has the facts in the form in which the templates show them.
type view struct {
	*Facts
	Now     time.Time
	Flow    spark // requests a second
	Waited  spark
	Summary string
	Trouble folded[trouble]
	Queue   queueTable
	Advised folded[status.Advice]
	Sites   siteTable
	Pools   []poolView
	Limits  []limitGroup
	Charts  []chart
	Early   []string // the periods of which there is too little to draw
}

func viewOf(f *Facts, now time.Time) *view {
	wrong := troublesOf(f, now)
	v := &view{
		Facts: f, Now: now, Flow: sparkOf(f.Samples.Total.Requests, 1), Waited: sparkOf(f.Samples.Waiting, 1), Summary: summaryOf(f, len(wrong)),
		Trouble: fold(wrong, 5, same), Queue: queueOf(f, now), Advised: fold(f.Advice, 2, same),
		Sites: sitesOf(f), Limits: limitGroups(f, now),
	}
	written := writtenByToken(f)
	for i := range f.Tokens.Pools {
		v.Pools = append(v.Pools, poolOf(&f.Tokens.Pools[i], written, &f.Samples, now))
	}
	for i, p := range f.Past.Periods {
		if c := chartOf(p); i == 0 || c.busy > 1 {
			v.Charts = append(v.Charts, c)
		} else {
			v.Early = append(v.Early, p.Name)
		}
	}
	return v
}

// summaryOf is the state in a sentence for those who hear the page. It changes seldom, so it has
// no number that changes all the time.
func summaryOf(f *Facts, wrong int) string {
	first, second := "Nothing is wrong", "no request waits"
	if wrong > 0 {
		first = status.Number(wrong, "thing is wrong", "things are wrong")
	}
	if len(f.Holds) > 0 {
		second = "requests wait"
	}
	return first + "; " + second + "."
}

// Use returns the URL to copy: the one where all https is opened, if there is one.
func (v *view) Use() string { return cmp.Or(v.Open, v.Proxy) }

// Up returns how long the process has run.
func (v *view) Up() string { return v.Now.Sub(v.Started).Truncate(time.Second).String() }

// Time returns the time at which the page was made.
func (v *view) Time() string { return v.Now.UTC().Format("15:04:05 UTC") }

// Busy reports whether any request has come.
func (v *view) Busy() bool { return v.Total.Requests > 0 || len(v.Holds) > 0 }

// In, Ahead and Ago describe a time relative to the page's.
func (v *view) In(at time.Time) string    { return status.In(at, v.Now) }
func (v *view) Ahead(at time.Time) string { return status.Ahead(at, v.Now) }
func (v *view) Ago(at time.Time) string   { return status.Ago(at, v.Now) }

// StoreSentence describes the state of the store.
func (v *view) StoreSentence() string {
	text := v.Store.Sentence(v.Now)
	return strings.ToUpper(text[:1]) + text[1:]
}

// perSecond formats a rate: "0", "0.3", "42".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "< 0.1"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return status.Count(uint64(math.Round(rate)))
}

// bytesPerSecond formats a rate of bytes.
func bytesPerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" }

// span formats a time in seconds, at least one: "3 min 05 s".
func span(seconds float64) string {
	return status.Long(time.Duration(max(seconds, 1) * float64(time.Second)))
}
