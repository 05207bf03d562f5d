package top

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/abide-proxy/abide/status"
)

func TestTextsOfNumbersAreShort(t *testing.T) {
	for rate, want := range map[float64]string{-1: "0", 0: "0", 0.01: "< 0.1", 0.05: "0.1", 9.94: "9.9", 9.96: "10", 99.96: "100", 1234.4: "1\u202f234"} {
		if got := status.PerSecond(rate); got != want {
			t.Errorf("%v: %q, want %q", rate, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 900 * time.Millisecond: "0s", 59 * time.Second: "59s", 5 * time.Minute: "5m00s",
		125 * time.Second: "2m05s", 150 * time.Minute: "2h30m", 47 * time.Hour: "47h00m", 75 * time.Hour: "3d03h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestATextIsCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"api.test", 8, "api.test"},
		{"api.test", 7, "api.te…"},
		{"api.test", 1, "…"},
		{"api.test", 0, ""},
		{"api.test", -3, ""},
		{"日本語.test", 6, "日本…"},
		{"日本語.test", 5, "日本…"},
		{"日本語.test", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func FuzzATextOfAStrangerHasItsPlaceAndNoControls(f *testing.F) {
	f.Add("api.test", 5)
	f.Add("\x1b[2J\x1b]0;title\a\r\n\t", 10)
	f.Add("\u202egpj.exe\u200b\ufeff", 3)
	f.Add("日本語\xff\xc0\x80", 4)
	f.Add("👩‍👩‍👧‍👦e\u0301\u0301\u0301🇩🇪", 2)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most %= 300
		text = clean(text)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is not printable", text)
		}
		short := cut(text, most)
		if width(short) > max(most, 0) {
			t.Errorf("%q takes %d columns of %d", short, width(short), most)
		}
		if begin, was := strings.CutSuffix(short, "…"); !strings.HasPrefix(text, begin) || short != text && !was && most > 0 {
			t.Errorf("%q was made of %q", short, text)
		}
		if got := padded(short, most, false); width(got) != max(most, 0) {
			t.Errorf("%q takes %d columns, not %d", got, width(got), most)
		}
	})
}
