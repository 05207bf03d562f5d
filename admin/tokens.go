package admin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// tokens answers what is asked about tokens.
type tokens struct{ from Proxy }

// list tells of every pool.
func (t tokens) list(_ http.ResponseWriter, _ *http.Request) (any, error) {
	return t.from.Tokens().Normalize(), nil
}

// pool tells of a pool.
func (t tokens) pool(_ http.ResponseWriter, r *http.Request) (any, error) {
	pool, err := t.find(r.PathValue("pool"))
	if err != nil {
		return nil, err
	}
	return pool.Normalize(), nil
}

// find finds a pool. Its error says which there are.
func (t tokens) find(name string) (*status.Pool, error) {
	all := t.from.Tokens()
	if pool := all.Find(name); pool != nil {
		return pool, nil
	}
	return nil, missing("there is no pool "+quoted(name), lists.Map(all.Pools, func(p status.Pool) string { return p.Name }))
}

func missing(what string, names []string) error {
	const fewNames = 20 // the largest number of names in an error
	if len(names) == 0 {
		return status.Missing(what + ", nor any other")
	}
	list := lists.Map(names[:min(len(names), fewNames)], quoted)
	what += "; there are: " + strings.Join(list, ", ")
	if more := len(names) - len(list); more > 0 {
		what += " and " + status.Number(more, "other", "others")
	}
	return status.Missing(what)
}

// change is an endpoint that takes a token out of use ("disable"), or puts it back into use ("enable"), which has a
// token that is quarantined tried again. It answers how the token is then.
func (t tokens) change(what string) endpoint {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		name, label := r.PathValue("pool"), r.PathValue("label")
		if err := t.act(name, label, what); err != nil {
			return nil, err
		}
		if p := t.from.Tokens().Find(name); p != nil {
			if token := p.Find(label); token != nil {
				return token.Normalize(), nil
			}
		}
		return nil, status.Missing("the token has just left the pool")
	}
}

// button disables or enables tokens of a pool for the page, which is then shown again.
func (t tokens) button(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := readForm(w, r); err != nil {
		return nil, err
	}
	what, labels := r.PostForm.Get("do"), r.PostForm["label"]
	if what != "disable" && what != "enable" {
		return nil, errors.New("do must be disable or enable")
	}
	if len(labels) == 0 {
		labels = []string{""}
	}
	for _, label := range labels {
		if err := t.act(r.PostForm.Get("pool"), label, what); err != nil {
			return nil, err
		}
	}
	return backTo(r, "#tokens"), nil
}

// act disables or enables a token that is there.
func (t tokens) act(name, label, what string) error {
	p, err := t.find(name)
	if err != nil {
		return err
	}
	if p.Find(label) == nil {
		labels := lists.Map(p.Tokens, func(t status.Token) string { return t.Label })
		return missing("the pool "+quoted(p.Name)+" has no token "+quoted(label), labels)
	}
	return failed(http.StatusNotFound, t.from.SwitchToken(name, label, what == "enable"))
}
