package top

import (
	"strings"
	"testing"
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
}

func FuzzATextOfAStrangerHasNoControls(f *testing.F) {
	f.Add("api.test")
	f.Add("\x1b[2J\x1b]0;title\a\r\n\t")
	f.Add("\u202egpj.exe\u200b\ufeff")
	f.Add("日本語\xff\xc0\x80")
	f.Add("👩‍👩‍👧‍👦e\u0301\u0301\u0301🇩🇪")
	f.Fuzz(func(t *testing.T, text string) {
		text = status.Clean(text)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is not printable", text)
		}
	})
}
