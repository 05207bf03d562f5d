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

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/status"
)

// maxBody is more than any request of the API needs.
const maxBody = 1 << 20

func refuse(w http.ResponseWriter, code int, detail string) {
	answer(w, code, "application/problem+json", status.Problem{Title: http.StatusText(code), Status: code, Detail: detail})
}

func answerJSON(w http.ResponseWriter, v any) {
	answer(w, http.StatusOK, "application/json", v)
}

func answer(w http.ResponseWriter, code int, kind string, v any) {
	if _, isForm := w.(people); isForm && code >= http.StatusBadRequest {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		show(w, "problem", v)
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

// readJSON reads the body of a request into v, which may be empty. It answers
// the request itself when the body is not what it has to be.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	body, ok := readBody(w, r)
	if !ok || len(body) == 0 {
		return ok
	}
	if err := decodeStrictly(body, v); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
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
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", maxBody))
		return nil, false
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body could not be read")
		return nil, false
	case len(body) == 0:
		return nil, true
	}
	if !isJSON(r.Header.Get("Content-Type"), body) {
		w.Header().Set("Accept", "application/json")
		refuse(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return nil, false
	}
	return body, true
}

// queryOf is the query of a request with at most one value for each of these names,
// and no other name. It answers the request itself when that is not so.
func queryOf(w http.ResponseWriter, r *http.Request, names ...string) (url.Values, bool) {
	query, ok := anyQuery(w, r)
	if !ok {
		return nil, false
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			refuse(w, http.StatusBadRequest, "the query has "+quoted(name)+", which is none of "+strings.Join(names, ", "))
			return nil, false
		case len(values) > 1 || len(values[0]) > maxQuery:
			refuse(w, http.StatusBadRequest, name+" is there more than once, or too long")
			return nil, false
		}
	}
	return query, true
}

// anyQuery is the query of a request. It answers the request itself when that cannot be read.
func anyQuery(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the query cannot be read")
	}
	return query, err == nil
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
	return `"` + shorten.To(mostQuoted, strings.Map(status.Printable, strings.ToValidUTF8(name, "\uFFFD"))) + `"`
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

// readForm reads a form of the page, or answers the request itself.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if err != nil {
		refuse(w, http.StatusBadRequest, "the form is too long, or cannot be read")
	}
	return err == nil
}

// people is an answer to a form: refusals are shown as a page.
type people struct{ http.ResponseWriter }

func forPeople(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { next(people{w}, r) }
}

// backTo returns the page that follows a form: that about a site from which it was sent, else a part of that of all sites.
func backTo(r *http.Request, part string) string {
	if from, err := url.Parse(r.Referer()); err == nil && from.Query().Has("site") {
		return "/?site=" + url.QueryEscape(from.Query().Get("site"))
	}
	return "/" + part
}
