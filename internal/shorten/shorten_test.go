package shorten

import "testing"

func TestATextIsCutToAWidth(t *testing.T) {
	for n, want := range map[int]string{-1: "", 0: "", 1: "…", 3: "ab…", 4: "abcd", 9: "abcd"} {
		if got := To(n, "abcd"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	if got := To(3, "äöüß"); got != "äö…" {
		t.Errorf("%q", got)
	}
}

func TestAHashHasSoManyBytes(t *testing.T) {
	if got, bytes := Hash(4, "abc"), Hash(4, []byte("abc")); got != "ba7816bf" || bytes != got {
		t.Errorf("%q %q", got, bytes)
	}
}
