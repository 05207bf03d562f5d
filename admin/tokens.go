package admin

import (
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// tokens answers what is asked about tokens.
type tokens struct{ from Proxy }

// list tells of every pool.
func (t tokens) list(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, t.from.Tokens().Normalize())
}

// pool tells of a pool.
func (t tokens) pool(w http.ResponseWriter, r *http.Request) {
	all := t.from.Tokens()
	if pool := all.Find(r.PathValue("pool")); pool != nil {
		answerJSON(w, pool.Normalize())
		return
	}
	refuse(w, http.StatusNotFound, noPool(all, r.PathValue("pool")))
}

// noPool says that t has no pool of a name, and which it has.
func noPool(t status.Tokens, name string) string {
	return missing("there is no pool "+quoted(name), lists.Map(t.Pools, func(p status.Pool) string { return p.Name }))
}

// fewNames is the largest number of names in an error.
const fewNames = 20

func missing(what string, names []string) string {
	if len(names) == 0 {
		return what + ", nor any other"
	}
	list := lists.Map(names[:min(len(names), fewNames)], quoted)
	what += "; there are: " + strings.Join(list, ", ")
	if more := len(names) - len(list); more > 0 {
		what += " and " + status.Number(more, "other", "others")
	}
	return what
}

// change takes a token out of use ("disable"), or puts it back into use ("enable"), which has a
// token that is quarantined tried again. It answers how the token is then.
func (t tokens) change(what string, w http.ResponseWriter, r *http.Request) {
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

// button disables or enables tokens of a pool for the page, which is then shown again.
func (t tokens) button(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	what := r.PostForm.Get("do")
	if what != "disable" && what != "enable" {
		refuse(w, http.StatusBadRequest, "do must be disable or enable")
		return
	}
	labels := r.PostForm["label"]
	if len(labels) == 0 {
		labels = []string{""}
	}
	for _, label := range labels {
		if !t.act(w, r.PostForm.Get("pool"), label, what) {
			return
		}
	}
	http.Redirect(w, r, backTo(r, "#tokens"), http.StatusSeeOther)
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
		labels := lists.Map(p.Tokens, func(t status.Token) string { return t.Label })
		refuse(w, http.StatusNotFound, missing("the pool "+quoted(p.Name)+" has no token "+quoted(label), labels))
		return false
	}
	if err := do(name, label); err != nil {
		refuse(w, http.StatusNotFound, status.ErrorLine(err))
		return false
	}
	return true
}
