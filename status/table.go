package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// heading is a line with space around it.
func heading(w io.Writer, text string) {
	say(w, "")
	say(w, "%s", text)
	say(w, "")
}

// say writes one line.
func say(w io.Writer, format string, args ...any) {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	_, _ = io.WriteString(w, strings.Map(Printable, text)+"\n")
}

// maxCell bounds the characters of a cell.
const maxCell = 64

// table is rows for people, in columns as wide as what is in them.
type table struct {
	numbers []int // columns whose cells stand to the right
	rows    [][]string
}

// add has no cell that can steer a terminal.
func (t *table) add(cells ...string) {
	for i, one := range cells {
		one = strings.Map(Printable, strings.ToValidUTF8(one, "\uFFFD"))
		if runes := []rune(one); len(runes) > maxCell {
			one = string(runes[:maxCell-1]) + "…"
		}
		cells[i] = one
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, one := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(one))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, one := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(one))
			if slices.Contains(t.numbers, i) {
				line.WriteString(space + one)
			} else {
				line.WriteString(one + space)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, _ = io.WriteString(w, b.String())
}
