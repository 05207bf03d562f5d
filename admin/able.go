package admin

import (
	"errors"
	"net/http"
)

// maxForm is more than a form of the page has.
const maxForm = 16 << 10

// disable takes a token out of use.
func (d *desk) disable(w http.ResponseWriter, r *http.Request) { d.change(w, r, "disable") }

// enable puts one back, and has one that is quarantined tried again.
func (d *desk) enable(w http.ResponseWriter, r *http.Request) { d.change(w, r, "enable") }

// change answers how the token is then.
func (d *desk) change(w http.ResponseWriter, r *http.Request, what string) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	name, label := r.PathValue("pool"), r.PathValue("label")
	if !d.able(w, name, label, what) {
		return
	}
	if p := d.Tokens().pool(name); p != nil {
		if one := p.token(label); one != nil {
			answerJSON(w, one.finished())
			return
		}
	}
	refuse(w, http.StatusNotFound, "the token has just left the pool")
}

// press is a button of the page, which then shows what has become of the token.
func (d *desk) press(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var large *http.MaxBytesError
	switch err := r.ParseForm(); {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "the form is too long")
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	what := r.PostForm.Get("do")
	if what != "disable" && what != "enable" {
		refuse(w, http.StatusBadRequest, "do must be disable or enable")
		return
	}
	if d.able(w, r.PostForm.Get("pool"), r.PostForm.Get("label"), what) {
		http.Redirect(w, r, "/#tokens", http.StatusSeeOther)
	}
}

// able disables or enables a token that is there, or answers the request itself.
func (d *desk) able(w http.ResponseWriter, name, label, what string) bool {
	all, ok := d.known(w)
	do := d.Disable
	if what == "enable" {
		do = d.Enable
	}
	switch {
	case !ok:
		return false
	case do == nil:
		refuse(w, http.StatusNotImplemented, "this process cannot "+what+" its tokens")
		return false
	}
	p := all.pool(name)
	if p == nil {
		refuse(w, http.StatusNotFound, all.without(name))
		return false
	}
	if p.token(label) == nil {
		refuse(w, http.StatusNotFound, p.without(label))
		return false
	}
	if err := do(name, label); err != nil {
		refuse(w, http.StatusNotFound, detailOf(err))
		return false
	}
	return true
}
