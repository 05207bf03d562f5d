package paginate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
)

// nextLink is the target of the first link with rel="next" in the Link headers (RFC 8288).
// Links that are about another resource than the page do not count.
func nextLink(h http.Header, page *url.URL) (string, bool) {
	for _, text := range h.Values("Link") {
		for _, found := range aLink.FindAllStringSubmatch(text, -1) {
			params := map[string]string{} // of parameters of one name the first one counts
			for _, param := range aParam.FindAllStringSubmatch(found[2], -1) {
				if name := strings.ToLower(param[1]); params[name] == "" {
					params[name] = escaped.ReplaceAllString(param[2], "$1") + strings.TrimSpace(param[3])
				}
			}
			if isNext(params, page) {
				return strings.TrimSpace(found[1]), true
			}
		}
	}
	return "", false
}

// aLink finds a link of a Link header: its target and its parameters. aParam finds one of these, whose
// value may be in quotes, and escaped a letter behind a backslash.
var (
	aLink   = regexp.MustCompile(`<([^>]*)>((?:[^,"]|"(?:[^"\\]|\\.)*"?)*)`)
	aParam  = regexp.MustCompile(`;\s*([^=;,"\s]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;"]*)))?`)
	escaped = regexp.MustCompile(`\\(.)`)
)

func isNext(params map[string]string, page *url.URL) bool {
	if anchor, has := params["anchor"]; has {
		u, err := page.Parse(anchor)
		if err != nil || address(u) != address(page) {
			return false
		}
	}
	return slices.ContainsFunc(strings.Fields(params["rel"]), func(relation string) bool { return strings.EqualFold(relation, "next") })
}

// maxNext bounds the bytes of a cursor, or of a URL of a next page.
const maxNext = 8 << 10

// withParam is a URL whose query has a parameter once. Other parameters stay as they are.
func withParam(u *url.URL, name, value string) *url.URL {
	changed := *u
	changed.RawQuery = policy.WithParameter(u.RawQuery, url.QueryEscape(name)+"="+url.QueryEscape(value), func(other string) bool { return other == name })
	return &changed
}

// address returns what tells a URL from others: its origin, path and query.
func address(u *url.URL) string { return policy.OriginOf(u) + " " + u.RequestURI() }

// follow is the URL that a page names as the next one. The walk stays at the origin of its
// first page.
func follow(first, page *url.URL, text string) (*url.URL, error) {
	u, err := page.Parse(strings.TrimSpace(text))
	if err != nil || u.Opaque != "" {
		return nil, errors.New("the next page has no readable URL")
	}
	u.Fragment, u.RawFragment = "", ""
	switch {
	case policy.OriginOf(u) != policy.OriginOf(first):
		return nil, fmt.Errorf("the next page is at %s, another origin than %s: abide sends no credentials there", shorten.To(100, u.Scheme+"://"+u.Host), first.Scheme+"://"+first.Host)
	case u.User != nil && (first.User == nil || *u.User != *first.User):
		return nil, errors.New("the URL of the next page has a user name")
	}
	return at(first, u.RequestURI())
}

// at is the URL of a path and query at the origin of the first page.
func at(first *url.URL, text string) (*url.URL, error) {
	u, err := url.Parse(first.Scheme + "://" + first.Host + text)
	if err != nil || len(text) > maxNext || !strings.HasPrefix(text, "/") {
		return nil, errors.New("the next page has no readable URL")
	}
	u.User, u.Fragment, u.RawFragment = first.User, "", ""
	return u, nil
}
