package top

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// titles are the titles of the columns that a terminal has room for.
func titles(shown []placed) string {
	var all []string
	for _, one := range shown {
		all = append(all, one.title)
	}
	return strings.Join(all, " ")
}

func TestANarrowTerminalHasTheImportantColumns(t *testing.T) {
	used := make([]int, len(columns))
	for width, want := range map[int]string{
		10: "SITE", 14: "SITE", 21: "SITE REQ/S", 50: "SITE REQ/S WAIT LONGEST STATE",
		80: "SITE REQ/S RECV/S WAIT LONGEST LIMITED BY REFUSED STATE", 90: "SITE REQ/S RECV/S SENT/S WAIT LONGEST LIMITED BY REFUSED STATE",
	} {
		if got := titles(layout(width, used)); got != want {
			t.Errorf("%d: %s, want %s", width, got, want)
		}
	}
}

func TestAWideTerminalHasWholeTexts(t *testing.T) {
	used := make([]int, len(columns))
	used[0], used[6] = 40, 55
	shown := layout(200, used)
	if shown[0].width != 40 || shown[6].width != 55 {
		t.Errorf("%d and %d columns", shown[0].width, shown[6].width)
	}
}

// Whatever the texts are, the columns fit, stand in their order, and more room takes none away.
func TestColumnsFitIntoTheTerminal(t *testing.T) {
	for rank := range columns {
		if n := len(slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.rank != rank })); n != 1 {
			t.Fatalf("%d columns have the rank %d", n, rank)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 300).Draw(t, "width")
		used := rapid.SliceOfN(rapid.IntRange(0, 200), len(columns), len(columns)).Draw(t, "used")
		shown := layout(width, used)
		sum := gap * (len(shown) - 1)
		for i, one := range shown {
			sum += one.width
			if one.width < 1 || one.width > max(one.most, one.least) || i > 0 && one.number <= shown[i-1].number {
				t.Fatalf("%s has %d columns", one.title, one.width)
			}
		}
		if sum > width || shown[0].number != 0 {
			t.Fatalf("%s take %d columns of %d", titles(shown), sum, width)
		}
		if wider := layout(width+1, used); len(wider) < len(shown) {
			t.Fatalf("%s with %d, %s with %d", titles(shown), width, titles(wider), width+1)
		}
	})
}

func TestSqueezedColumnsHaveRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		widths := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 8).Draw(t, "widths")
		before, room := slices.Clone(widths), rapid.IntRange(0, 200).Draw(t, "room")
		squeeze(widths, room, 5)
		sum := gap * (len(widths) - 1)
		for i, one := range widths {
			sum += one
			if one > before[i] || one < min(before[i], 5) {
				t.Fatalf("%v became %v", before, widths)
			}
		}
		if sum > room && slices.Max(widths) > 5 {
			t.Fatalf("%v take %d columns of %d", widths, sum, room)
		}
	})
}
