package admin

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// mostTokens is how many of a pool are listed, mostAnnounced how many limits of
// one token, or without any.
const (
	mostTokens    = 10_000
	mostAnnounced = 1000
)

// Tokens are the pools, and the limits that servers announce to requests without a
// token. No secret is in any of it.
type Tokens struct {
	Pools  []Pool      `json:"pools"`
	Limits []Announced `json:"limits"`
}

// Pool is the tokens of one name. The listener says how many there are.
type Pool struct {
	Name   string  `json:"pool"`
	Ready  int     `json:"ready"`
	Count  int     `json:"count"` // those that are not listed, too
	Tokens []Token `json:"tokens"`
}

// Token is what people may know of one. State is "ready", "cooling", "spent",
// "quarantined" or "disabled".
type Token struct {
	Label string `json:"label"`
	State string `json:"state"`
	// Until is when the state ends, and Why who said so.
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
	// Fingerprint tells secrets apart while the process runs.
	Fingerprint string   `json:"fingerprint"`
	Twins       []string `json:"twins,omitempty"` // others of the same account

	Uses     uint64 `json:"uses"`
	Refusals uint64 `json:"refusals"` // "too much"
	Denials  uint64 `json:"denials"`  // "who are you"
	// Accepted is when a request was sent that a site accepted, Throttled when one
	// was refused: each the last, zero is never.
	Accepted  time.Time `json:"last_accepted,omitzero"`
	Throttled time.Time `json:"last_throttled,omitzero"`

	Routes []Paused    `json:"routes,omitempty"` // that are worse off than the token is
	Limits []Announced `json:"limits"`
}

// Paused is a route for which a token may not be used.
type Paused struct {
	Route string    `json:"route"`
	State string    `json:"state"`
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// Announced is a limit as a server has announced it.
type Announced struct {
	Site      string    `json:"site"`
	Route     string    `json:"route,omitempty"`
	Title     string    `json:"title,omitempty"`
	Limit     int64     `json:"limit"`          // -1: nobody knows
	Remaining int64     `json:"remaining"`      // -1: nobody knows
	Reset     time.Time `json:"reset,omitzero"` // when there is more
	Window    float64   `json:"window_seconds,omitempty"`
	State     string    `json:"state,omitempty"`
	Foreign   float64   `json:"foreign"` // the share that others use of it, 0 to 1
}

// tokens lists every pool.
func (d *desk) tokens(w http.ResponseWriter, _ *http.Request) {
	if all, ok := d.known(w); ok {
		answerJSON(w, all.finished())
	}
}

// pool lists one.
func (d *desk) pool(w http.ResponseWriter, r *http.Request) {
	all, ok := d.known(w)
	if !ok {
		return
	}
	if one := all.pool(r.PathValue("pool")); one != nil {
		answerJSON(w, one.finished())
		return
	}
	refuse(w, http.StatusNotFound, all.without(r.PathValue("pool")))
}

// known answers the request itself when nobody knows of tokens.
func (d *desk) known(w http.ResponseWriter) (Tokens, bool) {
	if d.Tokens == nil {
		refuse(w, http.StatusNotImplemented, "this process has no tokens")
		return Tokens{}, false
	}
	return d.Tokens(), true
}

// finished has no null lists, a bound, an order, and its times in UTC.
func (t Tokens) finished() Tokens {
	pools := make([]Pool, 0, len(t.Pools))
	for _, p := range t.Pools {
		pools = append(pools, p.finished())
	}
	slices.SortStableFunc(pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return Tokens{pools, announced(t.Limits)}
}

func (p Pool) finished() Pool {
	list := append([]Token{}, p.Tokens...)
	slices.SortStableFunc(list, func(a, b Token) int { return cmp.Compare(a.Label, b.Label) })
	p.Count, p.Tokens = len(list), list[:min(len(list), mostTokens)]
	for i, one := range p.Tokens {
		p.Tokens[i] = one.finished()
	}
	return p
}

func (t Token) finished() Token {
	t.Until, t.Accepted, t.Throttled = t.Until.UTC(), t.Accepted.UTC(), t.Throttled.UTC()
	t.Routes = slices.Clone(t.Routes)
	for i := range t.Routes {
		t.Routes[i].Until = t.Routes[i].Until.UTC()
	}
	t.Limits = announced(t.Limits)
	return t
}

// announced are limits by name.
func announced(list []Announced) []Announced {
	list = append([]Announced{}, list...)
	slices.SortStableFunc(list, func(a, b Announced) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Title, b.Title))
	})
	list = list[:min(len(list), mostAnnounced)]
	for i := range list {
		one := &list[i]
		one.Reset = one.Reset.UTC()
		one.Foreign, one.Window = finite(one.Foreign), finite(one.Window)
	}
	return list
}

// finite is a number that JSON has.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func (t Tokens) pool(name string) *Pool {
	i := slices.IndexFunc(t.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Pools[i]
}

func (p Pool) token(label string) *Token {
	i := slices.IndexFunc(p.Tokens, func(t Token) bool { return t.Label == label })
	if i < 0 {
		return nil
	}
	return &p.Tokens[i]
}

// without says that there is no such pool, and which there are.
func (t Tokens) without(name string) string {
	names := make([]string, len(t.Pools))
	for i, one := range t.Pools {
		names[i] = one.Name
	}
	return missing("there is no pool "+quoted(name), names)
}

// without says that there is no such token, and which there are.
func (p Pool) without(label string) string {
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
		what += " and " + number(more, "other", "others")
	}
	return what
}

// quoted is a name in an error: one line of bounded length.
func quoted(name string) string {
	return `"` + shortened(strings.Map(printable, strings.ToValidUTF8(name, "\uFFFD"))) + `"`
}
