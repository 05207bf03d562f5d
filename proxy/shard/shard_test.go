package shard

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/policy"
)

// vector is a URL with its key and owners, for those who write it in another language.
type vector struct {
	URL    string
	By     By
	Key    string
	Hash   string         // the first 8 bytes of the key's SHA-256
	Owners map[string]int // :: n → owner
}

func vectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%d vectors", len(all))
	}
	return all
}

func TestKeysAndOwnersAreThoseOfTheVectors(t *testing.T) {
	for _, v := range vectors(t) {
		key, err := Key(v.URL, v.By)
		if err != nil || key != v.Key {
			t.Errorf("%q is %q, %v; want %q", v.URL, key, err, v.Key)
		}
		if again, err := Key(v.Key, v.By); v.By == URL && (err != nil || again != v.Key) {
			t.Errorf("the key %q is %q, %v", v.Key, again, err)
		}
		if got := fmt.Sprintf("%016x", hash(v.Key)); got != v.Hash {
			t.Errorf("%q has the hash %s, want %s", v.Key, got, v.Hash)
		}
		for text, want := range v.Owners {
			n, err := strconv.Atoi(text)
			if got := Owner(v.Key, n); err != nil || got != want {
				t.Errorf("%q belongs to %d of %d, want %d", v.Key, got, n, want)
			}
		}
	}
}

// The guide shows the owner in five lines of Python. They are run as they stand there.
func TestTheFiveLinesOfTheGuideSayTheSame(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Logf("not compared: %v", err)
		return
	}
	guide, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(guide)
	if block == nil {
		t.Fatal("the guide has no Python")
	}
	var in strings.Builder
	var want []string
	for _, v := range vectors(t) {
		for _, n := range []int{1, 2, 3, 10, 99, 100, 101, 4096} {
			fmt.Fprintf(&in, "%d %s\n", n, v.Key)
			want = append(want, strconv.Itoa(Owner(v.Key, n)))
		}
	}
	script := string(block[1]) + "\nimport sys\nfor line in sys.stdin:\n    n, key = line.rstrip('\\n').split(' ', 1)\n    print(owner(key, int(n)))\n"
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin = strings.NewReader(in.String())
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Fields(string(out))
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("Python says %v\nand this says %v", got, want)
	}
}

func TestWhatIsNoURLIsRefusedWithoutItsText(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "is no URL that begins with http",
		"canary.test/a":                "is no URL that begins with http",
		"ftp://canary.test/":           "is no URL that begins with http",
		"http:/canary.test":            "is no URL that begins with http",
		"http://":                      "has a host that is empty",
		"http://u:canary@":             "has a host that is empty",
		"http://u:canary/x@a.test":     "has a host that has a port that is not a number",
		"http://canary test/":          "has a host that",
		"http://a..canary/":            "an empty label",
		"http://a.test:0/canary":       "has a port",
		"http://a.test/canary\tb":      "a control character",
		"http://a.test/\x00canary":     "a control character",
		"http://%63anary.test/":        "is percent-encoded",
		strings.Repeat("x", Longest+1): "is longer than 1048576 bytes",
		"https://[::1/canary":          "brackets",
		"https://" + strings.Repeat("a", 300) + ".test": "longer than 253",
	} {
		key, err := Key(text, URL)
		if err == nil || key != "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.60q: %q, %v", text, key, err)
		}
	}
}

// urls draws URLs in the spellings that people and programs have for them.
var urls = rapid.Custom(func(t *rapid.T) string {
	pick := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
	var b strings.Builder
	b.WriteString(pick("scheme", "http://", "https://", "HTTP://", "Https://") + pick("user", "", "", "u:p@"))
	b.WriteString(pick("host", "a.test", "A.Test.", "[::1]", "127.1", "bücher.example", "xn--bcher-kva.example", "b.test") + pick("port", "", ":80", ":443", ":8080"))
	for range rapid.IntRange(0, 4).Draw(t, "segments") {
		b.WriteString("/" + pick("segment", "", "a", ".", "..", "%2e", "%2E%2e", "%7e", "~", "ü", "%C3%BC", "%c3%bc", "a%2fb", "b c", "%20", "100%25", "x\"y", "!$&'()*+,;=:@", ".a", "[x]"))
	}
	b.WriteString(pick("query", "", "?", "?a=1&b=2", "?b=2&a=1", "?q=ü", "?q=%c3%BC", "?a%26b", "?a&b", "?x[]=1", "?%41", "?a?b/c", "?a|b", "?100%"))
	b.WriteString(pick("fragment", "", "#x", "#%zz"))
	return b.String()
})

// asSent is a URL as a client writes it into a request: without its fragment, and what
// no request has is escaped.
func asSent(text string) string {
	text, _, _ = strings.Cut(text, "#")
	start := strings.Index(text, "://") + 3
	if end := strings.IndexAny(text[start:], "/?"); end >= 0 {
		start += end
	} else {
		start = len(text)
	}
	var b strings.Builder
	b.WriteString(text[:start])
	for _, c := range []byte(text[start:]) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func TestAKeyIsItsOwnKeyAndThatOfTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := urls.Draw(t, "url")
		key, err := Key(text, URL)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := Key(key, URL); err != nil || again != key {
			t.Fatalf("%q has the key %q, and that has %q, %v", text, key, again, err)
		}
		host, err := Key(text, Host)
		if same, wrong := Key(key, Host); err != nil || wrong != nil || same != host {
			t.Fatalf("%q is of %q, its key of %q", text, host, same)
		}
		// What a client sends of it, and a proxy reads.
		sent := asSent(text)
		u, err := url.Parse(sent)
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		to, err := policy.ParseTarget(strings.ToLower(u.Scheme), u.Host)
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		for _, by := range []By{URL, Host} {
			want, _ := Key(text, by)
			if got := KeyOf(to, u.EscapedPath(), u.RawQuery, by); got != want {
				t.Fatalf("%q has the key %q, as a request %q", text, want, got)
			}
		}
	})
}

func TestEachKeyHasOneOwnerAndMovesOnlyToTheNewOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		n := rapid.IntRange(1, 1<<20).Draw(t, "n")
		before, after := Owner(key, n), Owner(key, n+1)
		if before < 0 || before >= n || Owner(key, n) != before {
			t.Fatalf("%q belongs to %d of %d", key, before, n)
		}
		if after != before && after != n {
			t.Fatalf("%q moves from %d to %d when %d become %d", key, before, after, n, n+1)
		}
	})
	for _, n := range []int{-1, 0, 1} {
		if got := Owner("a", n); got != 0 {
			t.Errorf("%d of %d", got, n)
		}
	}
	if got := Owner("a", math.MaxInt32); got < 0 || got >= math.MaxInt32 {
		t.Errorf("%d of very many", got)
	}
}

// The keys are fixed, so these numbers are as well: they say how even it is, and
// never flicker.
func TestPartsAreEvenAndOneMoreTakesItsShareAlone(t *testing.T) {
	const keys = 200_000
	hashes := make([]uint64, keys)
	for i := range hashes {
		hashes[i] = hash("https://site-" + strconv.Itoa(i%997) + ".example/page/" + strconv.Itoa(i))
	}
	for _, n := range []int{2, 3, 10, 100, 1000} {
		count, moved := make([]int, n), 0
		for _, h := range hashes {
			owner := jump(h, n)
			count[owner]++
			if jump(h, n+1) != owner {
				moved++
			}
		}
		chi, mean := 0.0, float64(keys)/float64(n)
		for _, c := range count {
			chi += (float64(c) - mean) * (float64(c) - mean) / mean
		}
		// With n-1 degrees of freedom: five standard deviations above what is usual.
		if most := float64(n-1) + 5*math.Sqrt(2*float64(n-1)); chi > most {
			t.Errorf("%d parts: chi square is %.1f, more than %.1f", n, chi, most)
		}
		share := float64(keys) / float64(n+1)
		if math.Abs(float64(moved)-share) > 5*math.Sqrt(share) {
			t.Errorf("from %d to %d parts %d of %d move, about %.0f should", n, n+1, moved, keys, share)
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"http://a.test", "https://u:p@A.test:1/%2e%2e/?q=%zz#x", "http://[::1]/a/../..", "http://bücher.example/ü?ü", "http://0x7f.1", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, by := range []By{URL, Host} {
			key, err := Key(text, by)
			if err != nil {
				continue
			}
			if strings.ContainsAny(key, " \r\n\t") || key == "" {
				t.Fatalf("%q has the key %q", text, key)
			}
			if by == Host {
				continue
			}
			if again, err := Key(key, by); err != nil || again != key {
				t.Fatalf("%q has the key %q, and that has %q, %v", text, key, again, err)
			}
		}
	})
}

func BenchmarkOwnerOfURL(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		key, err := Key("https://www.example.com/articles/2024/05/some-title-that-is-long?utm_source=feed&id=12345", URL)
		if err != nil || Owner(key, 100) < 0 {
			b.Fatal(err)
		}
	}
}
