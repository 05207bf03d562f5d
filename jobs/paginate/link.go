package paginate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
)

// nextLink is the target of the first link with rel="next" in the Link headers (RFC 8288).
// Links that are about another resource than the page do not count.
func nextLink(h http.Header, page *url.URL) (string, bool) {
	for _, text := range h.Values("Link") {
		for text != "" {
			var l link
			var ok bool
			if l, text, ok = cutLink(text); ok && l.isNext(page) {
				return l.target, true
			}
		}
	}
	return "", false
}

// link is a link of a Link header. Of parameters of one name the first one counts.
type link struct {
	target string
	params map[string]string // by name in lower case
}

func (l link) isNext(page *url.URL) bool {
	if anchor, has := l.params["anchor"]; has {
		u, err := page.Parse(anchor)
		if err != nil || address(u) != address(page) {
			return false
		}
	}
	return slices.ContainsFunc(strings.Fields(l.params["rel"]), func(relation string) bool {
		return strings.EqualFold(relation, "next")
	})
}

// cutLink takes the first link off a Link header. If it is no link, it ends at the next comma.
func cutLink(text string) (l link, rest string, ok bool) {
	text = strings.TrimLeft(text, " \t,")
	inside, found := strings.CutPrefix(text, "<")
	target, text, closed := strings.Cut(inside, ">")
	if !found || !closed {
		_, rest, _ = strings.Cut(inside, ",")
		return link{}, rest, false
	}
	l = link{target: strings.TrimSpace(target), params: map[string]string{}}
	for {
		text = strings.TrimLeft(text, " \t")
		var more bool
		if text, more = strings.CutPrefix(text, ";"); !more {
			break
		}
		var name, value string
		name, value, text = cutParam(text)
		if _, has := l.params[name]; !has && name != "" {
			l.params[name] = value
		}
	}
	_, rest, _ = strings.Cut(text, ",")
	return l, rest, true
}

// cutParam takes a parameter off a link.
func cutParam(text string) (name, value, rest string) {
	i := strings.IndexAny(text, "=;,")
	if i < 0 {
		i = len(text)
	}
	name, text = strings.ToLower(strings.TrimSpace(text[:i])), text[i:]
	text, has := strings.CutPrefix(text, "=")
	if !has {
		return name, "", text
	}
	text = strings.TrimLeft(text, " \t")
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		value, rest = cutQuoted(quoted)
		return name, value, rest
	}
	i = strings.IndexAny(text, ";,")
	if i < 0 {
		i = len(text)
	}
	return name, strings.TrimSpace(text[:i]), text[i:]
}

// cutQuoted is a quoted text without its escapes, and what follows its second quote.
func cutQuoted(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:]
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// maxNext bounds the bytes of a cursor, or of a URL of a next page.
const maxNext = 8 << 10

// withParam is a URL whose query has a parameter once. Other parameters stay as they are.
func withParam(u *url.URL, name, value string) *url.URL {
	changed := *u
	changed.RawQuery = policy.WithParameter(u.RawQuery, url.QueryEscape(name)+"="+url.QueryEscape(value), func(other string) bool { return other == name })
	return &changed
}

// origin is scheme, host and port of a URL, as they are compared.
func origin(u *url.URL) string {
	t, _ := policy.ParseTarget(u.Scheme, u.Host) // one that cannot be parsed is no site's
	return t.Scheme + "://" + t.HostPort()
}

// address returns what tells a URL from others: its origin, path and query.
func address(u *url.URL) string { return origin(u) + " " + u.RequestURI() }

// mostOrigin is the longest origin in a reason.
const mostOrigin = 100

// follow is the URL that a page names as the next one. The walk stays at the origin of its
// first page.
func follow(first, page *url.URL, text string) (*url.URL, error) {
	if page == nil {
		page = first
	}
	u, err := page.Parse(strings.TrimSpace(text))
	if err != nil || u.Opaque != "" {
		return nil, errors.New("the next page has no readable URL")
	}
	u.Fragment, u.RawFragment = "", ""
	switch {
	case origin(u) != origin(first):
		return nil, fmt.Errorf("the next page is at %s, another origin than %s: abide sends no credentials there", shorten.To(mostOrigin, u.Scheme+"://"+u.Host), first.Scheme+"://"+first.Host)
	case u.User != nil && (first.User == nil || *u.User != *first.User):
		return nil, errors.New("the URL of the next page has a user name")
	}
	return at(first, u.RequestURI())
}

// at is the URL of a path and query at the origin of the first page.
func at(first *url.URL, text string) (*url.URL, error) {
	if len(text) > maxNext || !strings.HasPrefix(text, "/") {
		return nil, errors.New("the next page has no readable URL")
	}
	u, err := url.Parse(first.Scheme + "://" + first.Host + text)
	if err != nil {
		return nil, errors.New("the next page has no readable URL")
	}
	u.User, u.Fragment, u.RawFragment = first.User, "", ""
	return u, nil
}
