package paginate

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
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
