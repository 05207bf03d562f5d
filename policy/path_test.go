package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPathsThatMeanTheSameHaveOneSpelling(t *testing.T) {
	for want, paths := range map[string]string{
		"/":              "/",
		"/2/tweets/17":   "/2/tweets/17 /2/%74weets/17 /%32/t%77eets/%31%37",
		"/a%2Fb":         "/a%2Fb /a%2fb",
		"/caf%C3%A9":     "/caf%C3%A9 /caf%c3%a9 /café",
		"/a/../b/./c//":  "/a/../b/./c// /a/%2e%2E/b/%2e/c//",
		"/100%25":        "/100%25 /100%",
		"/100%2525":      "/100%2525",
		"/a%252Fb":       "/a%252Fb",
		"/%25z":          "/%z /%25z /%25%7A",
		"/*!'();:@&=+$,": "/*!'();:@&=+$, /%2a%21%27%28%29%3b%3A%40%26%3d%2B%24%2c",
		"/%20%22%00%7F":  "/%20%22%00%7f",
		"/a%3Fb%23c":     "/a?b#c /a%3fb%23c",
		"*":              "*",
	} {
		for _, path := range strings.Fields(paths) {
			if got := NormalPath(path); got != want {
				t.Errorf("%s is %s, want %s", path, got, want)
			}
		}
	}
	if NormalPath("") != "/" {
		t.Error("no path at all is not that of a bare host")
	}
	for _, path := range []string{"/2/tweets/17", "/a%2Fb/caf%C3%A9", "/"} {
		if n := testing.AllocsPerRun(100, func() { NormalPath(path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func TestPathsHaveOneSpellingExactlyWhenTheyMeanTheSame(t *testing.T) {
	piece := rapid.SampledFrom([]string{"/", "/", "a", "%61", "%2F", "%2f", "%", "%2", "%25", "é", "%C3%A9", "%c3%a9", "*", "%2A", " ", "%20", "?", ".", "%2e"})
	draw := func(rt *rapid.T, name string) string {
		return "/" + strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(rt, name), "")
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := draw(rt, "a"), draw(rt, "b")
		if same := NormalPath(a) == NormalPath(b); same != sameSegments(a, b) {
			rt.Fatalf("%q is %q, %q is %q", a, NormalPath(a), b, NormalPath(b))
		}
	})
}

// sameSegments is what NormalPath tells, as it is said: segment by segment, byte
// by byte.
func sameSegments(a, b string) bool {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if sentText(as[i]) != sentText(bs[i]) {
			return false
		}
	}
	return true
}

func sentText(segment string) string {
	var b strings.Builder
	for segment != "" {
		c, size := sentByte(segment)
		b.WriteByte(c)
		segment = segment[size:]
	}
	return b.String()
}

func FuzzNormalPath(f *testing.F) {
	for _, s := range []string{"", "/", "/%74", "/a%2fb", "/%", "/%4", "*", "/\x00\xff", "/%%34%31", "/a?b#c", "/%zz%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := NormalPath(path)
		switch {
		case NormalPath(got) != got:
			t.Fatalf("%q is %q, then %q", path, got, NormalPath(got))
		case path != "" && !sameSegments(path, got):
			t.Fatalf("%q means something else than %q", path, got)
		case len(got) > 3*len(path)+1:
			t.Fatalf("%q is as long as %q", path, got)
		}
		for i := range len(got) {
			if c := got[i]; !inPath[c] && c != '%' {
				t.Fatalf("%q has %q", got, c)
			}
		}
		for _, pattern := range []string{"/**/a", "/a%2Fb", "/*"} {
			r, err := parseRoute(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if covers(r, path) != covers(r, got) {
				t.Fatalf("%s does not take %q for %q", pattern, path, got)
			}
		}
	})
}
