package jobfile

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
)

// request reads the request of a job. It tells whether idempotency was set.
func (r *reader) request(n *yaml.Node, path string) (idempotency bool) {
	to := &r.job.Request
	if policy.IsScalar(n) { // just the URL
		policy.Parsed(r.d, &to.URL, parseURL, urlNode).Read(n, path)
		return false
	}
	set := r.d.Mapping(n, path, r.requestFields()...)
	if set["body"] != nil && to.Method == "GET" {
		r.d.Failf(set["body"], path+".body", "does not go with GET; set method")
	}
	return set["idempotency"] != nil
}

// requestFields are the keys of the request of a job.
func (r *reader) requestFields() []policy.Field {
	to := &r.job.Request
	return []policy.Field{
		policy.Required("url", "The URL of a unit.", policy.Parsed(r.d, &to.URL, parseURL, urlNode)),
		policy.Optional("method", "The method, GET if it is left out.", policy.Parsed(r.d, &to.Method, parseMethod, func() policy.Node {
			return policy.EitherNode(policy.WordNode(methods...), policy.PatternNode("^[A-Za-z]+$"))
		})),
		policy.Optional("headers", "Headers of each request, whose values may have ${NAME}.", policy.NewValue(r.headers, func() policy.Node { return policy.MapNode(headerName.String(), policy.SecretNode()) })),
		policy.Optional("body", "The body of each request.", r.plain(&to.Body)),
		policy.Optional("idempotency", "Whether each unit has an Idempotency-Key.", r.d.Truth(&to.Idempotency)),
		policy.Optional("priority", "0, the most urgent, to 7.", r.d.Number(&to.Priority, 0, policy.LowestPriority)),
	}
}

// urlNode describes the values that parseURL reads, as far as a pattern tells.
func urlNode() policy.Node { return policy.PatternNode(`^[hH][tT][tT][pP][sS]?://.`) }

// parseURL reads a URL with placeholders.
func parseURL(s string) (string, error) {
	if err := checkPlaceholders(s); err != nil {
		return "", err
	}
	u, err := url.Parse(ReplacePlaceholders(s, func(string, string) string { return "x" }))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s is no URL with http:// or https:// and a host", policy.Quote(s))
	case u.User != nil:
		return "", errors.New("has a user or password; send them in an Authorization header, or use a pool of tokens")
	case strings.Contains(u.Host, "{"), strings.Contains(s[:strings.Index(s, "://")], "{"):
		return "", fmt.Errorf("%s has a placeholder that is none", policy.Quote(s))
	}
	if _, err := policy.ParseTarget(u.Scheme, u.Host); err != nil {
		return "", err
	}
	return s, nil
}

// placeholder finds {date}, {date:2006/01} and the like.
var placeholder = regexp.MustCompile(`\{(date|from|to|item)(:[^{}]*)?\}`)

// Placeholders are the names of the placeholders in a text.
func Placeholders(text string) []string {
	return lists.Map(placeholder.FindAllStringSubmatch(text, -1), func(found []string) string { return found[1] })
}

// ReplacePlaceholders replaces each placeholder by what value returns for its name and form, as
// "date" and "2006/01/02"; the form is "" where there is none.
func ReplacePlaceholders(text string, value func(name, form string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name, form, _ := strings.Cut(found[1:len(found)-1], ":")
		return value(name, form)
	})
}

// braced finds what looks like a placeholder.
var braced = regexp.MustCompile(`\{([A-Za-z_]+)(:[^{}]*)?\}`)

// checkPlaceholders refuses words in braces that are no placeholders.
func checkPlaceholders(s string) error {
	words := []string{"date", "from", "to", "item"}
	for _, found := range braced.FindAllStringSubmatch(s, -1) {
		if !slices.Contains(words, found[1]) {
			return fmt.Errorf("has {%s}, which is no placeholder%s; there are {date}, {from}, {to} and {item}", found[1], policy.DidYouMean(found[1], words))
		}
		if form := strings.TrimPrefix(found[2], ":"); found[2] != "" && (found[1] == "item" || !isDateForm(form)) {
			return fmt.Errorf("has {%s%s}, whose form is none; write one such as {date:2006/01/02} or {date:unix}", found[1], found[2])
		}
	}
	return nil
}

// isDateForm tells whether a form writes different times differently.
func isDateForm(form string) bool {
	if slices.Contains([]string{"unix", "unix_ms", "rfc3339"}, form) {
		return true
	}
	at, other := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2017, 10, 28, 19, 40, 50, 0, time.UTC)
	return at.Format(form) != other.Format(form)
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"}

func parseMethod(s string) (string, error) {
	return policy.ParseWord(strings.ToUpper(s), methods...)
}

// headerName is a token of RFC 9110.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are set by HTTP itself.
var ownHeaders = []string{"host", "content-length", "connection", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-authorization"}

// headers reads the headers of a request. Their values may have ${NAME}.
func (r *reader) headers(n *yaml.Node, path string) {
	r.d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
		h := Header{Name: name}
		switch {
		case !headerName.MatchString(name):
			r.d.Failf(key, path, "is no name of a header")
		case slices.Contains(ownHeaders, strings.ToLower(name)), strings.HasPrefix(strings.ToLower(name), "abide-"):
			r.d.Failf(key, path, "cannot be set by a job")
		}
		if slices.ContainsFunc(r.job.Request.Headers, func(jobHeader Header) bool { return strings.EqualFold(jobHeader.Name, name) }) {
			r.d.Failf(key, path, "is there twice")
		}
		r.d.Secret(&h.Value).Read(value, path)
		if err := checkPlaceholders(h.Value.Reveal()); err != nil {
			r.d.Fail(value, path, err)
		}
		r.job.Request.Headers = append(r.job.Request.Headers, h)
	})
}
