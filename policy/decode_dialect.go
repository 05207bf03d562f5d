package policy

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/learn"
)

// dialecting is a dialect that is being read, and the node of each of its parts: learn
// checks the dialect as a whole and names the part that is wrong.
type dialecting struct {
	*decoder
	path string
	at   map[string]*yaml.Node // :: headers[0].name → its value
}

// readDialect reads how a service speaks of its limits. Its keys are the fields of
// learn.Dialect.
func readDialect(d *decoder, n *yaml.Node, path string) *learn.Dialect {
	g := &dialecting{d, path, map[string]*yaml.Node{}}
	out := &learn.Dialect{}
	before := d.count()
	set := d.mapping(n, path,
		field{"headers", func(n *yaml.Node, path string) { out.Headers = g.headers(n, path, headerSpelling) }},
		field{"body", func(n *yaml.Node, path string) { out.Body = g.headers(n, path, strings.TrimSpace) }},
		field{"refusals", func(n *yaml.Node, path string) { out.Refusals = g.refusals(n, path) }},
		field{"reset_unit", parsed(d, &out.ResetUnit, parseTimeUnit)},
		field{"retry_unit", parsed(d, &out.RetryUnit, parseTimeUnit)},
		field{"scope", parsed(d, &out.Scope, parseScope)},
		field{"statuses", listed(d, &out.Statuses, g.status)},
		field{"paths", listed(d, &out.Paths, d.label)},
		field{"apart", listed(d, &out.Apart, g.apart)},
	)
	if d.count() > before || !isMapping(n) {
		return nil
	}
	if len(set) == 0 || len(set) == 1 && set["paths"] != nil {
		d.failf(n, path, "says nothing; write headers, body, refusals, reset_unit, retry_unit, scope, statuses or apart")
		return nil
	}
	for i, one := range out.Paths {
		if !strings.HasPrefix(one, "/") {
			d.failf(set["paths"], fmt.Sprintf("%s.paths[%d]", path, i), "%s does not begin with a slash", quote(one))
		}
	}
	if err := out.Check(); err != nil {
		g.explain(n, err)
	}
	return out
}

// explain reports a fault that learn found at the node that it names.
func (g *dialecting) explain(n *yaml.Node, err error) {
	where, what, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		where, what = "", err.Error()
	}
	part, _, _ := strings.Cut(where, ".")
	for _, one := range []string{where, part} {
		if at := g.at[one]; at != nil {
			n = at
			break
		}
	}
	g.failf(n, strings.TrimSuffix(g.path+"."+where, "."), "%s", what)
}

// elements reads a list of mappings, and keeps where their values are.
func (g *dialecting) elements(n *yaml.Node, path string, element func(n *yaml.Node, path string) map[string]*yaml.Node) {
	g.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		key := strings.TrimPrefix(path, g.path+".")
		g.at[key] = n
		for name, value := range element(n, path) {
			g.at[key+"."+name] = value
		}
	})
	if isEmpty(n) {
		g.failf(n, path, "is empty")
	}
}

// headerSpelling is a header's name as learn has it.
func headerSpelling(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.Replace(name, "rate-limit", "ratelimit", 1)
}

// apart reads one of the paths of apart, and keeps where it is.
func (g *dialecting) apart(to *string) reader {
	return func(n *yaml.Node, path string) {
		g.label(to)(n, path)
		g.at[strings.TrimPrefix(path, g.path+".")] = n
	}
}

func (g *dialecting) headers(n *yaml.Node, path string, spelling func(string) string) []learn.Header {
	var all []learn.Header
	g.elements(n, path, func(n *yaml.Node, path string) map[string]*yaml.Node {
		var (
			h              learn.Header
			is, form, unit string
		)
		set := g.mapping(n, path,
			field{"name", g.label(&h.Name)},
			field{"is", g.word(&is, learn.Roles()...)},
			field{"form", g.word(&form, learn.Forms()...)},
			field{"of", g.label(&h.Of)},
			field{"unit", g.word(&unit, "requests", "tokens", "points", "content-bytes", "weight", "concurrent-requests", "percent")},
			field{"scope", parsed(g.decoder, &h.Scope, parseScope)},
			field{"method", parsed(g.decoder, &h.Method, parseMethod)},
			field{"in", parsed(g.decoder, &h.In, parseTimeUnit)},
			field{"window", parsed(g.decoder, &h.Window, ParseDuration)},
			field{"windows", func(n *yaml.Node, path string) {
				g.list(n, path, func(_ int, n *yaml.Node, path string) {
					var window time.Duration
					parsed(g.decoder, &window, ParseDuration)(n, path)
					h.Windows = append(h.Windows, window)
				})
			}},
			field{"aligned", g.truth(&h.Aligned)},
		)
		g.need(n, path, set, "name", "is")
		if unit == "requests" {
			unit = string(learn.Requests)
		}
		h.Name, h.Is, h.Form, h.Unit = spelling(h.Name), learn.Role(is), learn.Form(form), learn.Unit(unit)
		all = append(all, h)
		return set
	})
	return all
}

func (g *dialecting) refusals(n *yaml.Node, path string) []learn.Refusal {
	var all []learn.Refusal
	g.elements(n, path, func(n *yaml.Node, path string) map[string]*yaml.Node {
		var r learn.Refusal
		set := g.mapping(n, path,
			field{"status", listed(g.decoder, &r.Status, g.status)},
			field{"says", listed(g.decoder, &r.Says, g.label)},
			field{"in", func(n *yaml.Node, path string) {
				g.label(&r.In)(n, path)
				r.In = strings.ToLower(strings.TrimSpace(r.In))
			}},
			field{"and", g.label(&r.And)},
			field{"scope", parsed(g.decoder, &r.Scope, parseScope)},
			field{"wait", parsed(g.decoder, &r.Wait, ParseDuration)},
			field{"until", parsed(g.decoder, &r.Until, parseTimezone)},
			field{"key", g.label(&r.Key)},
			field{"prose", g.label(&r.Prose)},
			field{"spent", g.truth(&r.Spent)},
			field{"lock", g.truth(&r.Lock)},
			field{"permanent", g.truth(&r.Permanent)},
			field{"fine", g.truth(&r.Fine)},
			field{"hint", g.truth(&r.Hint)},
		)
		g.need(n, path, set, "says")
		all = append(all, r)
		return set
	})
	return all
}

func parseScope(s string) (learn.Scope, error) {
	name, err := parseWord(s, learn.Token.String(), learn.Route.String(), learn.Site.String())
	scope, _ := learn.ParseScope(name)
	return scope, err
}

// status is the reader of a status of an answer.
func (g *dialecting) status(to *int) reader { return g.number(to, 100, 599) }
