package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/shorten"
)

// Bars are amounts over time, stacked by series.
type Bars struct {
	Title  string
	Start  time.Time
	Step   time.Duration
	Count  int                         // steps
	Format func(amount float64) string // of an amount in texts
	Inside bool                        // of a page, which has the style

	series []series
	index  map[string]int // :: name → place in series
}

// Add adds an amount to a series at a time, and returns the step of that; -1: the image does not have the time.
func (b *Bars) Add(name string, at time.Time, amount float64) (step int) {
	step = int(at.Sub(b.Start) / b.Step)
	if at.Before(b.Start) || step >= b.Count {
		return -1
	}
	i, known := b.index[name]
	if !known {
		if i = len(b.series); i == 0 {
			b.index = map[string]int{}
		}
		b.index[name], b.series = i, append(b.series, series{name, make([]float64, b.Count)})
	}
	b.series[i].amounts[step] += max(amount, 0)
	return step
}

// series is one part of each bar.
type series struct {
	name    string
	amounts []float64 // one for each step
}

func (s series) sum() (n float64) {
	for _, one := range s.amounts {
		n += one
	}
	return n
}

// Sizes of the image, in its own units.
const (
	width, height = 900, 320
	left, right   = 70, 20
	top, bottom   = 44, 34
	lineHeight    = 20
)

// colours are told apart by people who see no red or no green as well.
var colours = []string{"#2f7ed8", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b5a900", "#8b6fd0"}

// SVG is the image. Series with the largest sums have colours; the rest is one series.
func (b Bars) SVG() []byte {
	drawn := b.drawn()
	most := b.most(drawn)
	legend := (len(drawn) + 3) / 4 * lineHeight
	var w strings.Builder
	fmt.Fprintf(&w, `<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height+legend, html.EscapeString(printable(b.Title)))
	if !b.Inside {
		w.WriteString(style)
	}
	fmt.Fprintf(&w, `<rect class="back" width="%d" height="%d"/><text class="head" x="%d" y="24">%s</text>`+"\n", width, height+legend, left, html.EscapeString(printable(b.Title)))
	b.drawScale(&w, most)
	b.drawTimes(&w)
	for step := range b.Count {
		b.drawBar(&w, drawn, step, most)
	}
	drawLegend(&w, drawn)
	w.WriteString("</svg>\n")
	return []byte(w.String())
}

const style = `<style>
.back{fill:#fff}text{font:12px system-ui,sans-serif;fill:#333}.head{font-size:16px;font-weight:600}.line{stroke:#ddd}
@media (prefers-color-scheme:dark){.back{fill:#16181c}text{fill:#d5d8dd}.line{stroke:#3a3f47}}
</style>
`

// drawn are the series that the image has.
func (b Bars) drawn() []series {
	const others = "other" // the series that those beyond the colours are added up in
	sorted := slices.Clone(b.series)
	slices.SortStableFunc(sorted, func(x, y series) int { return cmp.Or(cmp.Compare(y.sum(), x.sum()), cmp.Compare(x.name, y.name)) })
	if len(sorted) <= len(colours) {
		return sorted
	}
	rest := series{others, make([]float64, b.Count)}
	for _, one := range sorted[len(colours)-1:] {
		for i, amount := range one.amounts {
			rest.amounts[i] += amount
		}
	}
	return append(sorted[:len(colours)-1], rest)
}

// most is the largest bar, rounded up so that a quarter of it has one digit.
func (b Bars) most(drawn []series) float64 {
	most := 0.0
	for step := range b.Count {
		sum := 0.0
		for _, one := range drawn {
			sum += one.amounts[step]
		}
		most = max(most, sum)
	}
	if most <= 0 {
		return 1
	}
	digit := math.Pow(10, math.Floor(math.Log10(most/4)))
	return 4 * math.Ceil(most/4/digit) * digit
}

func (b Bars) y(amount, most float64) float64 {
	return top + (height-top-bottom)*(1-amount/most)
}

func (b Bars) x(step float64) float64 {
	return left + (width-left-right)*step/float64(max(b.Count, 1))
}

// drawScale draws lines of equal amounts.
func (b Bars) drawScale(w *strings.Builder, most float64) {
	for i := range 5 {
		amount := most * float64(i) / 4
		y := b.y(amount, most)
		fmt.Fprintf(w, `<line class="line" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, width-right, y, y, left-6, y+4, html.EscapeString(b.Format(amount)))
	}
}

// drawTimes writes some times below the bars.
func (b Bars) drawTimes(w *strings.Builder) {
	format := "15:04"
	switch {
	case b.Step >= 24*time.Hour:
		format = "2 Jan"
	case b.Step*time.Duration(b.Count) > 36*time.Hour:
		format = "2 Jan 15:04"
	}
	every := max((b.Count+7)/8, 1)
	for step := 0; step < b.Count; step += every {
		at := b.Start.Add(time.Duration(step) * b.Step).UTC()
		fmt.Fprintf(w, `<text x="%.1f" y="%d">%s</text>`+"\n", b.x(float64(step)), height-bottom+18, at.Format(format))
	}
}

func (b Bars) drawBar(w *strings.Builder, drawn []series, step int, most float64) {
	at := b.Start.Add(time.Duration(step) * b.Step).UTC().Format("2006-01-02 15:04")
	from, below := b.x(float64(step)), 0.0
	wide := max(b.x(float64(step+1))-from-1, 0.5)
	for i, one := range drawn {
		amount := one.amounts[step]
		if amount <= 0 {
			continue
		}
		y := b.y(below+amount, most)
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s UTC, %s: %s</title></rect>`+"\n",
			from, y, wide, b.y(below, most)-y, colours[i], at, html.EscapeString(printable(one.name)), html.EscapeString(b.Format(amount)))
		below += amount
	}
}

func drawLegend(w *strings.Builder, drawn []series) {
	const mostName = 28 // the longest part of a name in the legend
	const each = (width - left - right) / 4
	for i, one := range drawn {
		x, y := left+i%4*each, height+i/4*lineHeight
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y, colours[i], x+15, y+9, html.EscapeString(shorten.To(mostName, printable(one.name))))
	}
}

// printable has no character that XML refuses.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, "\uFFFD"))
}
