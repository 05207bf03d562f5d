package paginate

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// maxNext bounds the bytes of a cursor, or of a URL of a next page.
const maxNext = 8 << 10

// withParam is a URL whose query has a parameter once. Other parameters stay as they are.
func withParam(u *url.URL, name, value string) *url.URL {
	pair := url.QueryEscape(name) + "=" + url.QueryEscape(value)
	var kept []string
	placed := false
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		switch {
		case part == "":
		case paramName(part) != name:
			kept = append(kept, part)
		case !placed:
			kept, placed = append(kept, pair), true
		}
	}
	if !placed {
		kept = append(kept, pair)
	}
	changed := *u
	changed.RawQuery = strings.Join(kept, "&")
	return &changed
}

func paramName(part string) string {
	name, _, _ := strings.Cut(part, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// origin is scheme, host and port of a URL, as browsers compare them.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) + ":" + port
}

// address returns what tells a URL from others: its origin, path and query.
func address(u *url.URL) string { return origin(u) + " " + u.RequestURI() }

// follow is the URL that a page names as the next one. The walk stays at the origin of its
// first page.
func follow(first, page *url.URL, text string) (*url.URL, error) {
	if len(text) > maxNext {
		return nil, fmt.Errorf("the URL of the next page has %d characters, more than %d", len(text), maxNext)
	}
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
		return nil, fmt.Errorf("the next page is at %s, another origin than %s: abide sends no credentials there", shown(u), shown(first))
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

// shown is the origin of a URL in a reason.
func shown(u *url.URL) string {
	host := u.Host
	if len(host) > 100 {
		host = host[:100] + "…"
	}
	return u.Scheme + "://" + host
}
