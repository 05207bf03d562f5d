package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// maxBody is more than any request of the API needs.
const maxBody = 1 << 20

// endpoint answers a request with a value, which is written as JSON, or with the error for which the request is refused.
// Without either it has written the answer.
type endpoint func(w http.ResponseWriter, r *http.Request) (any, error)

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := e(w, r)
	page, shown := v.(seeOther)
	switch {
	case err != nil:
		refuse(w, err)
	case shown:
		http.Redirect(w, r, string(page), http.StatusSeeOther)
	case v != nil:
		answer(w, http.StatusOK, "application/json", v)
	}
}

// seeOther is the page that follows a form.
type seeOther string

// refusal is an error with the status of the answer that it becomes.
type refusal struct {
	code   int
	detail string
	err    error
}

func (r refusal) Error() string { return r.detail }

func (r refusal) Unwrap() error { return r.err }

// because is the error of a request that is refused with a status.
func because(code int, detail string) error { return refusal{code: code, detail: detail} }

// failed gives an error that is not of this package a status, which those that refuse knows do not take.
func failed(code int, err error) error {
	if err == nil {
		return nil
	}
	return refusal{code, status.ErrorLine(err), err}
}

// refuse answers with what is wrong, and where. An error without a status is one of the request itself.
func refuse(w http.ResponseWriter, err error) {
	p := status.Problem{Status: http.StatusBadRequest, Detail: err.Error()}
	if refused, ok := errors.AsType[refusal](err); ok {
		p.Status = refused.code
	}
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		p.Status, p.Detail, p.Faults = http.StatusBadRequest, status.ErrorLine(faults[0]), FaultsOf(faults)
		for i := range p.Faults {
			p.Faults[i].File = "" // the body's
		}
	} else if _, ok := errors.AsType[status.Missing](err); ok {
		p.Status = http.StatusNotFound
	} else if _, ok := errors.AsType[status.NotKept](err); ok {
		p.Status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "5")
	}
	p.Title = http.StatusText(p.Status)
	answer(w, p.Status, "application/problem+json", p)
}

func answer(w http.ResponseWriter, code int, kind string, v any) {
	if _, isForm := w.(people); isForm && code >= http.StatusBadRequest {
		show(w, code, page.Problem(v.(status.Problem)))
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("encoding an answer: %w", err))
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a client that has left needs no answer
}

// readJSON reads the body of a request into v, which may be empty.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err == nil && len(body) > 0 {
		err = decodeStrictly(body, v)
	}
	return err
}

// bare refuses requests with a body that has anything in it.
func bare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := readJSON(w, r, &struct{}{}); err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isJSON tells whether a body is JSON by what it says: a type, or none, or that of a
// form, which curl's --data says of anything, and JSON's first character. What pages of
// other origins may send is refused before, by where it comes from.
func isJSON(kind string, body []byte) bool {
	if said, _, err := mime.ParseMediaType(kind); err == nil && said == "application/json" {
		return true
	} else if kind != "" && (err != nil || said != "application/x-www-form-urlencoded") {
		return false
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// readBody reads a body that is JSON, or empty.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return nil, because(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", maxBody))
	case err != nil:
		return nil, errors.New("the body could not be read")
	case len(body) > 0 && !isJSON(r.Header.Get("Content-Type"), body):
		w.Header().Set("Accept", "application/json")
		return nil, because(http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	return body, nil
}

// queryOf is the query of a request with at most one value for each of these names,
// and no other name.
func queryOf(r *http.Request, names ...string) (url.Values, error) {
	query, err := anyQuery(r)
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			return nil, errors.New("the query has " + quoted(name) + ", which is none of " + strings.Join(names, ", "))
		case len(values) > 1 || len(values[0]) > maxQuery:
			return nil, errors.New(name + " is there more than once, or too long")
		}
	}
	return query, err
}

// anyQuery is the query of a request.
func anyQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query cannot be read")
	}
	return query, nil
}

// numberOf is a number of a query, usual if the query has none of that name.
func numberOf[T int | int64](query url.Values, name string, usual, least, most T) (T, error) {
	if !query.Has(name) {
		return usual, nil
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		return 0, fmt.Errorf("%s must be a number from %d to %d", name, least, most)
	}
	return T(n), nil
}

// quoted is a name in an error: one line of bounded length.
func quoted(name string) string {
	return `"` + shorten.To(mostQuoted, status.Clean(name)) + `"`
}

// mostQuoted is the longest text of a stranger in an answer.
const mostQuoted = 81

// maxQuery is more than any value of a query needs.
const maxQuery = 300

var errHeaders = errors.New("headers need to be a list of names and values, or an object")

// decodeStrictly reads one JSON value. Its errors are fit for a stranger to
// read: they name what is wrong, not types of ours.
func decodeStrictly(body []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return errors.New("the body has an unknown field " + shorten.To(mostQuoted, field))
		}
		if errors.Is(err, errHeaders) {
			return errHeaders
		}
		return errors.New("the body is not the JSON object that is expected here")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its JSON object")
	}
	return nil
}

// maxForm is the longest form that the page can send, in bytes, and more.
const maxForm = 16 << 10

// readForm reads a form of the page.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return errors.New("the form is too long, or cannot be read")
	}
	return nil
}

// people is an answer to a form: refusals are shown as a page.
type people struct{ http.ResponseWriter }

func forPeople(next endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(people{w}, r) }
}

// backTo returns the page that follows a form: that about a site from which it was sent, else a part of that of all sites.
func backTo(r *http.Request, part string) seeOther {
	if from, err := url.Parse(r.Referer()); err == nil && from.Query().Has("site") {
		return pageOf(from.Query().Get("site"))
	}
	return seeOther("/" + part)
}

// pageOf returns the page about a site.
func pageOf(site string) seeOther { return seeOther("/?site=" + url.QueryEscape(site)) }
