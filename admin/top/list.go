package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
	"github.com/rivo/uniseg"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// list is a table of clean texts.
type list struct {
	columns []column
	rows    [][]string
	colors  []tcell.Color // of the rows; nil: none has one
}

// listOf is a list with these titles.
func listOf(titles ...string) *list {
	return &list{columns: lists.Map(titles, func(title string) column { return column{title: title, least: len(title)} })}
}

// add adds a row.
func (l *list) add(cells ...string) { l.rows = append(l.rows, lists.Map(cells, status.Clean)) }

// gap is the space between columns.
const gap = 1

// room is the width that columns need at least.
func room(columns []column) (sum int) {
	for _, c := range columns {
		sum += c.least + gap
	}
	return sum - gap
}

// fitting is those of the columns that a terminal has room for: first those of high ranks are left out, and the first never is.
func fitting(shown []column, width int) []column {
	for rank := len(shown) - 1; rank > 0 && room(shown) > width; rank-- {
		shown = slices.DeleteFunc(shown, func(c column) bool { return c.rank == rank })
	}
	return shown
}

// widths are those of the columns: as wide as their texts, within their bounds. Where a terminal has no room the widest are
// narrower.
func (l *list) widths(width int) []int {
	widths, left := make([]int, len(l.columns)), width+gap
	for x, c := range l.columns {
		widths[x] = c.least
		for _, cells := range l.rows {
			widths[x] = max(widths[x], min(uniseg.StringWidth(cells[x]), cmp.Or(c.most, width)))
		}
		left -= widths[x] + gap
	}
	for ; left < 0; left++ {
		widest := 0
		for x := range widths {
			if widths[x]-l.columns[x].least > widths[widest]-l.columns[widest].least {
				widest = x
			}
		}
		if widths[widest] <= l.columns[widest].least {
			break
		}
		widths[widest]--
	}
	return widths
}

// draw fills a table of a width. Nothing in a text is a tag of tview.
func (l *list) draw(table *tview.Table, width int, color bool) {
	for x, wide := range l.widths(width) {
		format, align := "%-*s", tview.AlignLeft
		if l.columns[x].right {
			format, align = "%*s", tview.AlignRight
		}
		title := tview.NewTableCell(fmt.Sprintf(format, wide, l.columns[x].title)) // a column is as wide as its widest cell
		table.SetCell(0, x, title.SetSelectable(false).SetAttributes(tcell.AttrBold))
		for y, cells := range l.rows {
			cell := tview.NewTableCell(tview.Escape(cells[x])).SetMaxWidth(wide).SetAlign(align)
			if color && l.colors != nil {
				cell.SetTextColor(l.colors[y])
			}
			table.SetCell(y+1, x, cell)
		}
	}
}

// text is the list with all texts.
func (l *list) text() string {
	var b strings.Builder
	var t status.Table
	for x, c := range l.columns {
		if c.right {
			t.Numbers = append(t.Numbers, x)
		}
	}
	for _, cells := range append([][]string{lists.Map(l.columns, func(c column) string { return c.title })}, l.rows...) {
		t.Add(cells...)
	}
	t.Write(&b)
	return b.String()
}

// sizePerSecond is a rate of bytes, without its "/s": "1.2 MB".
func sizePerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) }
