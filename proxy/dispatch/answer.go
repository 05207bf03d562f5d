package dispatch

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/internal/replay"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
)

const (
	// mostPeek bounds the bytes of a body that are looked at.
	mostPeek = 4 << 10
	// longestPeek bounds the wait for these bytes: the client wants the head.
	longestPeek = time.Second
)

// headOf returns the beginning of a body, decoded: the bytes that have come in time. The body
// stays whole in the answer that headOf returns in place of resp.
func headOf(resp *http.Response) (*http.Response, []byte) {
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength == 0 {
		return resp, nil
	}
	switch kind := resp.Header.Get("Content-Type"); {
	case kind == "", strings.HasPrefix(kind, "text/") && !strings.HasPrefix(kind, "text/event-stream"), strings.Contains(kind, "json"), strings.Contains(kind, "xml"):
	default:
		return resp, nil
	}
	body, done, shown := &replay.Body{}, make(chan struct{}), *resp
	body.Begin(resp.Body, nil, peekRoom{})
	go func() {
		defer close(done)
		_ = body.ReadAhead() // whoever reads the body gets the error
	}()
	select {
	case <-done:
	case <-time.After(longestPeek):
	}
	reader, _ := body.Reader()
	// Reading ahead may fill the trailers while they are read, so shown has trailers of its own.
	shown.Trailer = maps.Clone(resp.Trailer)
	shown.Body = &endBody{struct {
		io.Reader
		io.Closer
	}{reader, resp.Body}, func() {
		if len(resp.Trailer) > 0 && shown.Trailer == nil {
			shown.Trailer = http.Header{}
		}
		maps.Copy(shown.Trailer, resp.Trailer)
	}}
	return &shown, decoded(resp.Header, body.Head())
}

// peekRoom lets the bytes of a body be kept that are looked at.
type peekRoom struct{}

func (peekRoom) Take(have int) int { return mostPeek - have }

// endBody is a body whose trailers are looked after by end, which is called when it was read to its end.
type endBody struct {
	io.ReadCloser
	end func()
}

func (b *endBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.end()
	}
	return n, err
}

// isShort reports whether an answer may be a refusal that has the status of a success: JSON, or a page.
func isShort(resp *http.Response) (short, page bool) {
	kind := resp.Header.Get("Content-Type")
	page = strings.HasPrefix(kind, "text/html")
	return resp.StatusCode == http.StatusOK && resp.ContentLength > 0 && resp.ContentLength <= mostPeek && (page || strings.Contains(kind, "json")), page
}

// lookOf returns the look of an answer; text is that of a page with the status of a success.
func lookOf(resp *http.Response, text []byte) sites.Page {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\n%s\n%d\n%s", resp.Header.Get("Content-Type"), resp.Header.Get("Server"), resp.ContentLength, text)
	return sites.Page{Sum: sum.Sum64(), Text: len(text) > 0}
}

// wholeOf reads a short body. It stays whole in the answer.
func wholeOf(resp *http.Response) (*http.Response, []byte) {
	text := make([]byte, resp.ContentLength)
	n, _ := io.ReadFull(resp.Body, text) // an error comes again
	shown := *resp
	shown.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text[:n]), resp.Body), resp.Body}
	return &shown, text[:n]
}

// decoded returns a head without its coding, nil if that is not known.
func decoded(h http.Header, head []byte) []byte {
	switch coding := h.Get("Content-Encoding"); coding {
	case "", "identity":
		return head
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return nil
		}
		text := make([]byte, mostPeek)
		n, _ := io.ReadFull(z, text)
		return text[:n]
	}
	return nil
}

// InPlaceOfToken replaces the token of a request where an answer repeats it.
const InPlaceOfToken = "{token}"

// hideToken replaces the token in the headers and the trailers of an answer. The body passes as
// it is. shown finds the token; nil: there is none.
func hideToken(resp *http.Response, shown *redact.Finder) {
	if resp == nil || shown == nil {
		return
	}
	shown.Headers(resp.Header, InPlaceOfToken)
	if resp.Body != nil && resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &endBody{resp.Body, func() { shown.Headers(resp.Trailer, InPlaceOfToken) }}
	}
}

// hideTokenInNames replaces credentials in the names that an answer gives to limits: the token of
// the request, which shown finds, and the credentials that the client sent itself. Names are
// shown to people and stored.
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
	finder := redact.New(CredentialsOf(r, longest)...)
	for _, name := range names {
		*name, _ = shown.Name(*name, InPlaceOfToken)
		if _, found := finder.Name(*name, ""); found {
			*name, _ = finder.Name(*name, fmt.Sprintf("{%012x}", maphash.String(fingerprints, *name)>>16)) // equal for equal names
		}
	}
}

// mostWords bounds the characters of a refusal that are shown to people.
const mostWords = 80

// wordsOf returns the status and the first words of a refusal without credentials, for people; "" if it is a page. Of JSON these
// are those of its longest text.
func wordsOf(r *http.Request, code int, head []byte, shown *redact.Finder) string {
	longest, parts := "", json.NewDecoder(bytes.NewReader(head))
	for part, err := parts.Token(); err == nil; part, err = parts.Token() {
		if value, ok := part.(string); ok && strings.Contains(value, " ") && len(value) > len(longest) {
			longest = value
		}
	}
	text := strings.Map(status.Printable, cmp.Or(longest, strings.ToValidUTF8(string(head), " ")))
	words := lists.Map(strings.Fields(text), func(word string) string { return redact.Path(word, InPlaceOfToken) })
	text, _ = shown.Name(strings.Join(words, " "), InPlaceOfToken)
	text, _ = redact.New(CredentialsOf(r, mostPeek)...).Name(text, InPlaceOfToken)
	if text == "" || strings.HasPrefix(text, "<") {
		return ""
	}
	return fmt.Sprintf(": %d, \"%s\"", code, shorten.To(mostWords, text))
}

// leastCredential is the length of the shortest value that is taken for a secret.
const leastCredential = 6

// CredentialsOf returns the secrets with which a client authenticates a request, those that are
// no longer than room.
func CredentialsOf(r *http.Request, room int) []string {
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
					_, directive, _ := strings.Cut(part, "=")
					add(directive)
				}
			case isSecret(name):
				add(value)
				scheme, secret, found := strings.Cut(value, " ")
				if !found {
					break
				}
				add(secret)
				if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(secret)); err == nil && strings.EqualFold(scheme, "Basic") {
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

// isSecret reports whether a header or a parameter is for a credential, by its name.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "pass", "session", "sign", "credential", "jwt"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}
