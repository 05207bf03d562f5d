package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/abide-proxy/abide/status"
)

// maxForm is the longest form that the page can send, in bytes, and more.
const maxForm = 16 << 10

// readForm reads a form of the page, or answers the request itself.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var large *http.MaxBytesError
	switch err := r.ParseForm(); {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "the form is too long")
		return false
	case err != nil:
		refuse(w, http.StatusBadRequest, "the form cannot be read")
		return false
	}
	return true
}

// forPeople shows refusals of a form as a page.
func forPeople(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := &formAnswer{ResponseWriter: w, code: http.StatusOK}
		next(answer, r)
		answer.finish()
	}
}

// formAnswer keeps the answer to a form until it is complete.
type formAnswer struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (a *formAnswer) WriteHeader(code int) { a.code = code }

func (a *formAnswer) Write(text []byte) (n int, err error) { return a.body.Write(text) }

// finish sends the answer, as a page where it is a problem.
func (a *formAnswer) finish() {
	var p status.Problem
	h := a.ResponseWriter.Header()
	if h.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body.Bytes(), &p) != nil {
		a.ResponseWriter.WriteHeader(a.code)
		_, _ = a.ResponseWriter.Write(a.body.Bytes())
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	a.ResponseWriter.WriteHeader(a.code)
	show(a.ResponseWriter, "problem", p)
}

// backTo returns the page that follows a form about a site: the site's, or that of all sites.
func backTo(r *http.Request, site string) string {
	if r.PostForm.Get("back") == "site" {
		return siteURL(site)
	}
	return "/#sites"
}

// siteURL is the page about a site.
func siteURL(site string) string { return "/?site=" + url.QueryEscape(site) }
