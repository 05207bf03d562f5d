package policy

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// request reads the request of a job. It tells whether idempotency was set.
func (r *jobReader) request(n *yaml.Node, path string) (idempotency bool) {
	to := &r.job.Request
	if isScalar(n) { // just the URL
		parsed(r.decoder, &to.URL, parseJobURL, jobURLNode).read(n, path)
		return false
	}
	set := r.mapping(n, path, r.requestFields()...)
	if set["body"] != nil && to.Method == "GET" {
		r.failf(set["body"], path+".body", "does not go with GET; set method")
	}
	return set["idempotency"] != nil
}

// requestFields are the keys of the request of a job.
func (r *jobReader) requestFields() []field {
	to := &r.job.Request
	return []field{
		required("url", "The URL of a unit.", parsed(r.decoder, &to.URL, parseJobURL, jobURLNode)),
		optional("method", "The method, GET if it is left out.", parsed(r.decoder, &to.Method, parseJobMethod, func() node {
			return eitherNode(wordNode(jobMethods...), patternNode("^[A-Za-z]+$"))
		})),
		optional("headers", "Headers of each request, whose values may have ${NAME}.", value{r.headers, func() node { return mapNode(headerName.String(), secretNode()) }}),
		optional("body", "The body of each request.", r.plain(&to.Body)),
		optional("idempotency", "Whether each unit has an Idempotency-Key.", r.truth(&to.Idempotency)),
		optional("priority", "0, the most urgent, to 7.", r.number(&to.Priority, 0, lowestPriority)),
	}
}

// jobURLNode is what parseJobURL reads, as far as a pattern tells.
func jobURLNode() node { return patternNode("^" + anyCase("http") + `[sS]?://.`) }

// parseJobURL reads a URL with placeholders.
func parseJobURL(s string) (string, error) {
	if err := checkPlaceholders(s); err != nil {
		return "", err
	}
	u, err := url.Parse(ReplacePlaceholders(s, func(string, string) string { return "x" }))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s is no URL with http:// or https:// and a host", quote(s))
	case u.User != nil:
		return "", errors.New("has a user or password; send them in an Authorization header, or use a pool of tokens")
	case strings.Contains(u.Host, "{"), strings.Contains(s[:strings.Index(s, "://")], "{"):
		return "", fmt.Errorf("%s has a placeholder that is none", quote(s))
	}
	if _, err := ParseTarget(u.Scheme, u.Host); err != nil {
		return "", err
	}
	return s, nil
}

// braced finds what looks like a placeholder.
var braced = regexp.MustCompile(`\{([A-Za-z_]+)(:[^{}]*)?\}`)

// checkPlaceholders refuses words in braces that are no placeholders.
func checkPlaceholders(s string) error {
	words := []string{"date", "from", "to", "item"}
	for _, found := range braced.FindAllStringSubmatch(s, -1) {
		if !slices.Contains(words, found[1]) {
			return fmt.Errorf("has {%s}, which is no placeholder%s; there are {date}, {from}, {to} and {item}", found[1], didYouMean(found[1], words))
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

var jobMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"}

func parseJobMethod(s string) (string, error) { return parseWord(strings.ToUpper(s), jobMethods...) }

// headerName is a token of RFC 9110.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are set by HTTP itself.
var ownHeaders = []string{"host", "content-length", "connection", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-authorization"}

// headers reads the headers of a request. Their values may have ${NAME}.
func (r *jobReader) headers(n *yaml.Node, path string) {
	r.each(n, path, false, func(key, value *yaml.Node, name, path string) {
		h := JobHeader{Name: name}
		switch {
		case !headerName.MatchString(name):
			r.failf(key, path, "is no name of a header")
		case slices.Contains(ownHeaders, strings.ToLower(name)), strings.HasPrefix(strings.ToLower(name), "abide-"):
			r.failf(key, path, "cannot be set by a job")
		}
		if slices.ContainsFunc(r.job.Request.Headers, func(jobHeader JobHeader) bool { return strings.EqualFold(jobHeader.Name, name) }) {
			r.failf(key, path, "is there twice")
		}
		r.secret(&h.Value).read(value, path)
		if err := checkPlaceholders(h.Value.Reveal()); err != nil {
			r.fail(value, path, err)
		}
		r.job.Request.Headers = append(r.job.Request.Headers, h)
	})
}
