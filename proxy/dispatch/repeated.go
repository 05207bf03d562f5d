package dispatch

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/limit/learn"
)

// InPlaceOfToken stands where a site has repeated the token of a request.
const InPlaceOfToken = "{token}"

// hideToken takes the token out of all headers of an answer, before anything is read from
// them. Those at its end come with its body, which passes as it is. shown finds the token;
// nil where there is none.
func hideToken(resp *http.Response, shown *redact.Finder) {
	if resp == nil || shown == nil {
		return
	}
	shown.Headers(resp.Header, InPlaceOfToken)
	if resp.Body != nil && resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &hidden{ReadCloser: resp.Body, resp: resp, shown: shown}
	}
}

// hidden is a body whose trailers do not show the token.
type hidden struct {
	io.ReadCloser
	resp  *http.Response
	shown *redact.Finder
}

func (b *hidden) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.shown.Headers(b.resp.Trailer, InPlaceOfToken)
	}
	return n, err
}

// hideTokenInNames takes credentials out of the names that an answer gives to limits: the token of
// the request, which shown finds and the beginning of the body may repeat, and what the
// client sent itself. Names are shown to people and kept, headers of the answer are not.
func hideTokenInNames(r *http.Request, l *learn.Lesson, shown *redact.Finder) {
	if len(l.Limits) == 0 && l.Bucket == "" {
		return
	}
	names := make([]*string, 0, 8)
	longest := 0
	each := func(name *string) {
		if *name != "" {
			names, longest = append(names, name), max(longest, len(*name))
		}
	}
	each(&l.Bucket)
	for i := range l.Limits {
		limit := &l.Limits[i]
		each(&limit.Name)
		each(&limit.Bucket)
		each(&limit.Partition)
		each((*string)(&limit.Unit))
	}
	if longest == 0 {
		return
	}
	finder := redact.New(credentialsOf(r, longest)...)
	for _, name := range names {
		*name, _ = shown.Name(*name, InPlaceOfToken)
		if _, found := finder.Name(*name, ""); found {
			*name, _ = finder.Name(*name, "{"+nameHash(*name)+"}")
		}
	}
}

// leastCredential is the length from which on what a client sends is taken for a secret.
const leastCredential = 6

// credentialsOf are what the client of a request shows to be let in, as far as a name of a
// length has room for it.
func credentialsOf(r *http.Request, room int) []string {
	if room < leastCredential {
		return nil
	}
	var list []string
	add := func(s string) {
		if s = strings.Trim(s, `" `); len(s) >= leastCredential && len(s) <= room {
			list = append(list, s)
		}
	}
	for name, values := range r.Header {
		for _, value := range values {
			switch {
			case name == "Cookie":
				for part := range strings.SplitSeq(value, ";") {
					_, is, _ := strings.Cut(part, "=")
					add(is)
				}
			case isSecret(name):
				add(value)
				scheme, rest, more := strings.Cut(value, " ")
				if !more {
					break
				}
				add(rest)
				if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && strings.EqualFold(scheme, "Basic") {
					name, password, _ := strings.Cut(string(plain), ":")
					add(string(plain))
					add(name)
					add(password)
				}
			}
		}
	}
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(value); err == nil && isSecret(name) {
			add(plain)
		}
	}
	return list
}

// isSecret tells whether a header or a parameter is for a credential, by its name.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"auth", "key", "token", "secret", "pass", "session", "sign", "credential", "jwt"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// nameKey is this process's alone, so what is made by it cannot be looked up.
var nameKey = func() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return key
}()

// nameHash is the same for the same name in this process, and says nothing about it.
func nameHash(name string) string {
	sum := hmac.New(sha256.New, nameKey)
	io.WriteString(sum, name)
	return hex.EncodeToString(sum.Sum(nil)[:6])
}
