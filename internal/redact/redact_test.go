package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// escape is one way to write a text so that it can be read again.
var escapes = map[string]func(t *rapid.T, s string) string{
	"as it is": func(_ *rapid.T, s string) string { return s },
	"percent, in part": func(t *rapid.T, s string) string {
		var b strings.Builder
		for i := range len(s) {
			format := rapid.SampledFrom([]string{"%c", "%%%02x", "%%%02X"}).Draw(t, "form")
			if s[i] == '%' || s[i] == '\\' {
				format = "%%%02x"
			}
			fmt.Fprintf(&b, format, s[i])
		}
		return b.String()
	},
	"query":  func(_ *rapid.T, s string) string { return url.QueryEscape(s) },
	"path":   func(_ *rapid.T, s string) string { return url.PathEscape(s) },
	"quoted": func(_ *rapid.T, s string) string { return backslashed(s) },
	"quoted, each byte": func(_ *rapid.T, s string) string {
		var b strings.Builder
		for i := range len(s) {
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
		return b.String()
	},
	"json": func(_ *rapid.T, s string) string {
		text, _ := json.Marshal(s)
		return string(text[1 : len(text)-1])
	},
	"json, each byte": func(_ *rapid.T, s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, `\u%04x`, s[i])
		}
		return b.String()
	},
}

// encodings write bytes in an alphabet. The text before and after is encoded with them.
var encodings = map[string]func(before, s, after string) string{
	"as it is": func(before, s, after string) string { return before + s + after },
	"hex":      func(before, s, after string) string { return hex.EncodeToString([]byte(before + s + after)) },
	"upper hex": func(before, s, after string) string {
		return strings.ToUpper(hex.EncodeToString([]byte(before + s + after)))
	},
	"base64": func(before, s, after string) string {
		return base64.StdEncoding.EncodeToString([]byte(before + s + after))
	},
	"base64url": func(before, s, after string) string {
		return base64.URLEncoding.EncodeToString([]byte(before + s + after))
	},
	"raw base64": func(before, s, after string) string {
		return base64.RawStdEncoding.EncodeToString([]byte(before + s + after))
	},
	"raw base64url": func(before, s, after string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(before + s + after))
	},
}

// TestASecretIsFoundInEveryEncoding is a property: whatever the secret, the encoding,
// the escapes around it and the text beside it, nothing of the secret is left, and
// what stood beside it as it is stays.
func TestASecretIsFoundInEveryEncoding(t *testing.T) {
	for name, encode := range encodings {
		for how, escape := range escapes {
			t.Run(name+", "+how, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					secret := rapid.StringMatching(`[!-~][ -~]{6,40}[!-~]`).Draw(t, "secret")
					before := rapid.StringMatching(`(user[0-9]{0,5}:)?`).Draw(t, "before")
					after := rapid.StringMatching(`(;v=[0-9]{1,3})?`).Draw(t, "after")
					twice := rapid.Bool().Draw(t, "twice")
					wire := escape(t, encode(before, secret, after))
					if twice {
						wire = url.QueryEscape(wire)
					}
					got, found := New(secret).Text("https://x.test/?a=1&k="+wire+"&b=2", "{}")
					if !found {
						t.Fatalf("%q is not found in %q", secret, wire)
					}
					if !strings.HasPrefix(got, "https://x.test/?a=1&k=") || !strings.HasSuffix(got, "&b=2") {
						t.Fatalf("what is beside it has changed: %q", got)
					}
					if again, found := New(secret).Text(got, "{}"); found {
						t.Fatalf("still there: %q, %q", got, again)
					}
					left := strings.TrimSuffix(strings.TrimPrefix(got, "https://x.test/?a=1&k="), "&b=2")
					// What surrounds it in its encoding may be left, and that is all.
					if len(left) > 2+6*3*(2*(len(before)+len(after))+4) {
						t.Fatalf("of %q is left %q", wire, left)
					}
				})
			})
		}
	}
}

// TestNoBitOfASecretIsLeftInBase64: the digits at both ends hold bits of the secret's
// first and last byte. Two secrets that differ in these alone leave the same text.
func TestNoBitOfASecretIsLeftInBase64(t *testing.T) {
	for before := range 7 {
		for after := range 7 {
			var left []string
			for _, secret := range []string{"\x01secret\x01", "\xfesecret\xfe"} {
				text := strings.Repeat("b", before) + secret + strings.Repeat("a", after)
				got, found := New(secret).Text(base64.RawStdEncoding.EncodeToString([]byte(text)), "{}")
				if !found {
					t.Fatalf("%q is not found", text)
				}
				left = append(left, got)
			}
			if left[0] != left[1] {
				t.Errorf("%d bytes before and %d after: %q and %q", before, after, left[0], left[1])
			}
		}
	}
}

func TestATextWithoutASecretStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Z0-9]{12,40}`).Draw(t, "secret")
		text := rapid.StringMatching(`([a-z/?=&;,"]|%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\[a-z"]){0,80}`).Draw(t, "text")
		if got, found := New(secret).Text(text, "{}"); found && !strings.Contains(strings.ToUpper(text), "%") && !strings.Contains(text, `\`) || !found && got != text {
			t.Fatalf("%q has become %q", text, got)
		}
	})
}

func TestANameIsFoundInAnyCase(t *testing.T) {
	f := New("Tok_en-1234")
	for _, name := range []string{"user-Tok_en-1234-read", "user-tok-en-1234-read", "USER-TOK_EN-1234-READ"} {
		if got, found := f.Name(name, "{}"); !found || !strings.EqualFold(got, "user-{}-read") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, found := f.Name("user-token-1234-read", "{}"); found {
		t.Error(got)
	}
}

func TestHeadersAreCleanedInNamesAndValues(t *testing.T) {
	h := map[string][]string{
		"X-Ratelimit-Abcdef123456-Limit": {"5"}, "Location": {"/?k=abcdef123456"}, "Date": {"today"},
	}
	if !New("abcdef123456").Headers(h, "{token}") || len(h) != 3 || h["X-Ratelimit-token-Limit"][0] != "5" || h["Location"][0] != "/?k={token}" || h["Date"][0] != "today" {
		t.Error(h)
	}
	var none *Finder
	if none.Headers(h, "x") || New().Headers(h, "x") || New("").Headers(h, "x") || New("abcdef123456").Headers(h, "x") {
		t.Error(h)
	}
}

func TestShortSecretsAreFoundAsTheyAreAlone(t *testing.T) {
	if got, found := New("ab").Text("cab %61b YWI=", "{}"); !found || got != "c{} {} YWI=" {
		t.Error(got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("abcd1234", `%61%2`+`\u006`+`\`)
	f.Add("a b", "%25%32%35a+b")
	f.Add("secret", `\\\"\ud83d\ude00\ud83d`)
	f.Add("\xbf", `\ud800`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		got, found := New(secret).Text(text, "")
		if !found && got != text {
			t.Fatal("changed, and nothing was found")
		}
		if secret != "" && strings.Contains(text, secret) && !found {
			t.Fatal("not found")
		}
		if found && len(got) >= len(text) {
			t.Fatal("nothing was taken out")
		}
		New(secret).Name(text, "")
	})
}

// typical are headers of an answer as a CDN gives them.
func typical() map[string][]string {
	return map[string][]string{
		"Date": {"Sun, 22 Nov 2026 18:36:13 GMT"}, "Content-Type": {"application/json; charset=utf-8"},
		"Content-Length": {"1234"}, "Cache-Control": {"private, max-age=0, must-revalidate"}, "Server": {"cloudflare"},
		"Strict-Transport-Security": {"max-age=31536000; includeSubDomains; preload"},
		"Content-Security-Policy":   {"default-src 'none'; base-uri 'self'; connect-src 'self' https://a.example.com https://b.example.com; img-src 'self' data:; script-src https://c.example.com"},
		"Set-Cookie":                {"session=" + strings.Repeat("Zm9vYmFy", 12) + "; path=/; secure; HttpOnly; SameSite=Lax", "id=4711; path=/"},
		"Etag":                      {`W/"0123456789abcdef0123456789abcdef"`}, "X-Request-Id": {"0f4a1b2c-3d4e-5f60-7182-93a4b5c6d7e8"},
		"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"4987"}, "X-Ratelimit-Reset": {"1795372573"}, "X-Ratelimit-Resource": {"core"},
		"Link": {`<https://api.example.com/items?page=2>; rel="next", <https://api.example.com/items?page=34>; rel="last"`},
		"Vary": {"Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding"}, "Access-Control-Allow-Origin": {"*"},
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New("tok_0123456789abcdef0123456789abcdef").compile()
	}
}

func BenchmarkHeaders(b *testing.B) {
	h := typical()
	for _, many := range []int{1, 10_000} {
		tokens := make([]string, many)
		for i := range tokens {
			tokens[i] = fmt.Sprintf("tok_%036x", rand.Uint64())
		}
		b.Run(fmt.Sprint("tokens=", many), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if New(tokens[i%many]).Headers(h, "{token}") {
					b.Fatal("found")
				}
			}
		})
	}
}

// BenchmarkHostile is what a site can cost with the largest headers that are taken.
func BenchmarkHostile(b *testing.B) {
	for name, one := range map[string]string{"percent": "%2525", "mixed": `%5c%5cu0025`, "plain": "abcde"} {
		h := map[string][]string{"X": {strings.Repeat(one, 64<<10/len(one))}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				New("tok_0123456789abcdef0123456789abcdef").Headers(h, "{token}")
			}
		})
	}
}
