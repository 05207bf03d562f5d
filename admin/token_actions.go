package admin

import (
	"errors"
	"net/http"

	"github.com/abide-proxy/abide/status"
)

// maxForm is the longest form that the page can send, in bytes, and more.
const maxForm = 16 << 10

// disable takes a token out of use.
func (t tokens) disable(w http.ResponseWriter, r *http.Request) { t.change(w, r, "disable") }

// enable puts a token back into use, and has a token that is quarantined tried again.
func (t tokens) enable(w http.ResponseWriter, r *http.Request) { t.change(w, r, "enable") }

// change disables or enables a token and answers how it is then.
func (t tokens) change(w http.ResponseWriter, r *http.Request, what string) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	name, label := r.PathValue("pool"), r.PathValue("label")
	if !t.act(w, name, label, what) {
		return
	}
	if p := t.from.Tokens().Find(name); p != nil {
		if token := p.Find(label); token != nil {
			answerJSON(w, token.Normalize())
			return
		}
	}
	refuse(w, http.StatusNotFound, "the token has just left the pool")
}

// button disables or enables a token for the page, which is then shown again.
func (t tokens) button(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	what := r.PostForm.Get("do")
	if what != "disable" && what != "enable" {
		refuse(w, http.StatusBadRequest, "do must be disable or enable")
		return
	}
	if t.act(w, r.PostForm.Get("pool"), r.PostForm.Get("label"), what) {
		http.Redirect(w, r, "/#tokens", http.StatusSeeOther)
	}
}

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

// act disables or enables a token that is there, or answers the request itself.
func (t tokens) act(w http.ResponseWriter, name, label, what string) bool {
	all, do := t.from.Tokens(), t.from.DisableToken
	if what == "enable" {
		do = t.from.EnableToken
	}
	p := all.Find(name)
	if p == nil {
		refuse(w, http.StatusNotFound, noPool(all, name))
		return false
	}
	if p.Find(label) == nil {
		refuse(w, http.StatusNotFound, noToken(p, label))
		return false
	}
	if err := do(name, label); err != nil {
		refuse(w, http.StatusNotFound, status.ErrorLine(err))
		return false
	}
	return true
}
