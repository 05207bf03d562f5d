package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/abide-proxy/abide/status"
)

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

// perSecond is a rate: "0", "<0.1", "12.3", "1204".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "<0.1"
	case rate < 99.95:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
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

// seconds is a number of seconds as the API has it.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
