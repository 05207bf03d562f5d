package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/abide-proxy/abide/status"
)

// list is a table of clean texts.
type list struct {
	titles []string
	right  []bool // columns of numbers
	widths []int
	rows   [][]string
	colors []tcell.Color // of the rows; nil: none has one
}

// add adds a row.
func (l *list) add(cells ...string) {
	for i, one := range cells {
		cells[i] = clean(one)
	}
	l.rows = append(l.rows, cells)
}

// fit makes the columns as wide as their texts, and narrower where the terminal has no room.
func (l *list) fit(room int) {
	const least = 5
	l.right = make([]bool, len(l.titles))
	l.widths = make([]int, len(l.titles))
	for x, title := range l.titles {
		l.widths[x] = width(title)
		for _, cells := range l.rows {
			l.widths[x] = max(l.widths[x], width(cells[x]))
		}
	}
	squeeze(l.widths, room, least)
}

// squeeze makes the widest columns narrower until all have room, but none narrower than least.
func squeeze(widths []int, room, least int) {
	sum := gap * (len(widths) - 1)
	for _, one := range widths {
		sum += one
	}
	for ; sum > room; sum-- {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}

// gap is the space between columns.
const gap = 1

// cell is a text as wide as its column.
func (l *list) cell(text string, x int) string {
	return padded(cut(text, l.widths[x]), l.widths[x], l.right[x])
}

// line is a row as text.
func (l *list) line(cells []string) string {
	var line strings.Builder
	for x, text := range cells {
		line.WriteString(l.cell(text, x) + "  ")
	}
	return strings.TrimRight(line.String(), " ")
}

// clean is a text of another process without anything that steers a terminal.
func clean(s string) string {
	return strings.Map(status.Printable, strings.ToValidUTF8(s, "\uFFFD"))
}

// width returns the number of columns of a terminal that a clean text takes.
func width(s string) int { return uniseg.StringWidth(s) }

// cut is a clean text of at most so many columns of a terminal.
func cut(s string, most int) string {
	if width(s) <= most {
		return s
	}
	if most <= 0 {
		return ""
	}
	var b strings.Builder
	left := most - width("…")
	for rest, state := s, -1; rest != ""; {
		var character string
		var wide int
		character, rest, wide, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if left -= wide; left < 0 {
			break
		}
		b.WriteString(character)
	}
	return b.String() + "…"
}

// padded is a clean text with spaces, so that it takes a width.
func padded(s string, to int, right bool) string {
	space := strings.Repeat(" ", max(to-width(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// sizePerSecond is a rate of bytes, without its "/s": "1.2 MB".
func sizePerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) }

// short is a duration in two parts at most: "12s", "3m05s", "2h10m", "3d04h".
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
