package top

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/internal/lists"
)

// titles are the titles of the columns that a terminal has room for.
func titles(width int) string {
	return strings.Join(lists.Map(fitting(slices.Clone(columns), width), func(c column) string { return c.title }), " ")
}

func TestANarrowTerminalHasTheImportantColumns(t *testing.T) {
	for width, want := range map[int]string{
		10: "SITE", 14: "SITE", 21: "SITE REQ/S", 50: "SITE REQ/S WAIT LONGEST STATE",
		80: "SITE REQ/S RECV/S WAIT LONGEST LIMITED BY REFUSED STATE", 90: "SITE REQ/S RECV/S SENT/S WAIT LONGEST LIMITED BY REFUSED STATE",
	} {
		if got := titles(width); got != want {
			t.Errorf("%d: %s, want %s", width, got, want)
		}
	}
}

// aRow is a list of the columns of the table of sites with a row of texts of these widths.
func aRow(shown []column, wide ...int) *list {
	l := &list{columns: shown}
	l.add(lists.Map(wide, func(n int) string { return strings.Repeat("x", n) })...)
	return l
}

func TestAWideTerminalHasWholeTexts(t *testing.T) {
	if widths := aRow(columns, 40, 0, 0, 0, 0, 0, 55, 0, 0).widths(200); widths[0] != 40 || widths[6] != 55 {
		t.Errorf("%d and %d columns", widths[0], widths[6])
	}
}

// Whatever the texts are, the columns fit, each has the width that it needs and no more than it can use, and more room takes
// none away.
func TestColumnsFitIntoTheTerminal(t *testing.T) {
	for rank := range columns {
		if n := len(lists.Only(columns, func(c column) bool { return c.rank == rank })); n != 1 {
			t.Fatalf("%d columns have the rank %d", n, rank)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 300).Draw(t, "width")
		shown := fitting(slices.Clone(columns), width)
		l := aRow(shown, rapid.SliceOfN(rapid.IntRange(0, 200), len(shown), len(shown)).Draw(t, "used")...)
		sum := -gap
		for i, wide := range l.widths(width) {
			sum += wide + gap
			if wide < shown[i].least || wide > shown[i].most {
				t.Fatalf("%s has %d columns", shown[i].title, wide)
			}
		}
		if sum > max(width, columns[0].least) || shown[0].rank != 0 {
			t.Fatalf("%s take %d columns of %d", titles(width), sum, width)
		}
		if narrow, wider := titles(width), titles(width+1); len(wider) < len(narrow) {
			t.Fatalf("%s with %d, %s with %d", narrow, width, wider, width+1)
		}
	})
}
