package admin

import (
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/status"
)

// tokenPools knows the pools and what servers announce, now. Errors of DisableToken and
// EnableToken are for whoever asked.
type tokenPools interface {
	Tokens() status.Tokens
	DisableToken(pool, label string) error
	EnableToken(pool, label string) error
}

// tokens answers what is asked about tokens.
type tokens struct{ from tokenPools }

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
	names := make([]string, len(t.Pools))
	for i, one := range t.Pools {
		names[i] = one.Name
	}
	return missing("there is no pool "+quoted(name), names)
}

// noToken says that p has no token of a label, and which it has.
func noToken(p *status.Pool, label string) string {
	labels := make([]string, len(p.Tokens))
	for i, one := range p.Tokens {
		labels[i] = one.Label
	}
	return missing("the pool "+quoted(p.Name)+" has no token "+quoted(label), labels)
}

// fewNames is how many an error lists.
const fewNames = 20

func missing(what string, names []string) string {
	if len(names) == 0 {
		return what + ", nor any other"
	}
	list := make([]string, 0, fewNames)
	for _, one := range names[:min(len(names), fewNames)] {
		list = append(list, quoted(one))
	}
	what += "; there are: " + strings.Join(list, ", ")
	if more := len(names) - len(list); more > 0 {
		what += " and " + status.Number(more, "other", "others")
	}
	return what
}

// quoted is a name in an error: one line of bounded length.
func quoted(name string) string {
	return `"` + shortened(strings.Map(status.Printable, strings.ToValidUTF8(name, "\uFFFD"))) + `"`
}
