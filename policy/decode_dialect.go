package policy

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/learn"
)

// dialecting is a dialect that is being read, and where each of its parts stands:
// what is wrong with all of them together is said by learn.
type dialecting struct {
	*decoder
	path string
	at   map[string]*yaml.Node // :: headers[0].name → its value
}

// dialect reads how a service speaks of its limits. Its keys are the fields of
// learn.Dialect.
func (d *decoder) dialect(n *yaml.Node, path string) *learn.Dialect {
	g := &dialecting{d, path, map[string]*yaml.Node{}}
	out := &learn.Dialect{}
	before := d.count()
	set := d.mapping(n, path,
		field{"headers", func(n *yaml.Node, path string) { out.Headers = g.headers(n, path, headerSpelling) }},
		field{"body", func(n *yaml.Node, path string) { out.Body = g.headers(n, path, strings.TrimSpace) }},
		field{"refusals", func(n *yaml.Node, path string) { out.Refusals = g.refusals(n, path) }},
		field{"reset_unit", d.timeUnit(&out.ResetUnit)},
		field{"retry_unit", d.timeUnit(&out.RetryUnit)},
		field{"scope", d.scope(&out.Scope)},
		field{"statuses", d.statuses(&out.Statuses)},
		field{"paths", d.texts(&out.Paths)},
		field{"apart", g.apart(&out.Apart)},
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

// explain reports what learn says, where it is.
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

// apart reads paths, and keeps where each is.
func (g *dialecting) apart(to *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		g.list(n, path, func(_ int, n *yaml.Node, path string) {
			var text string
			g.label(&text)(n, path)
			*to, g.at[strings.TrimPrefix(path, g.path+".")] = append(*to, text), n
		})
		if isEmpty(n) {
			g.failf(n, path, "is empty")
		}
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
			field{"is", g.word(&is, "limit", "remaining", "used", "reset", "next", "window", "rate", "cost", "retry", "label")},
			field{"form", g.word(&form, "list", "ratio", "named", "suffix", "usage", "persecond")},
			field{"of", g.label(&h.Of)},
			field{"unit", g.word(&unit, "requests", "tokens", "points", "content-bytes", "weight", "concurrent-requests", "percent")},
			field{"scope", g.scope(&h.Scope)},
			field{"method", g.method(&h.Method)},
			field{"in", g.timeUnit(&h.In)},
			field{"window", g.length(&h.Window)},
			field{"windows", func(n *yaml.Node, path string) {
				g.list(n, path, func(_ int, n *yaml.Node, path string) {
					var window time.Duration
					g.length(&window)(n, path)
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
			field{"status", g.statuses(&r.Status)},
			field{"says", g.texts(&r.Says)},
			field{"in", func(n *yaml.Node, path string) {
				g.label(&r.In)(n, path)
				r.In = strings.ToLower(strings.TrimSpace(r.In))
			}},
			field{"and", g.label(&r.And)},
			field{"scope", g.scope(&r.Scope)},
			field{"wait", g.length(&r.Wait)},
			field{"until", g.timezone(&r.Until)},
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

// The readers of values that a dialect alone has.

func (d *decoder) scope(to *learn.Scope) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var name string
		d.word(&name, learn.Token.String(), learn.Route.String(), learn.Site.String())(n, path)
		*to, _ = learn.ParseScope(name)
	}
}

// length is a length of time, which no calendar has.
func (d *decoder) length(to *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, plainText); ok {
			v, err := parseDuration(s)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			*to = v
		}
	}
}

// timeUnit is what a bare number counts: ms, s, m, h, d, or a length such as 10s.
func (d *decoder) timeUnit(to *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, plainText)
		if !ok {
			return
		}
		if i := durationAt(s); i >= 0 {
			*to = time.Duration(durations[i].size)
			return
		}
		v, err := parseDuration(s)
		if err != nil {
			d.failf(n, path, "%s is not a unit of time; write ms, s, m, h or d", quote(s))
			return
		}
		*to = v
	}
}

func (d *decoder) statuses(to *[]int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.list(n, path, func(_ int, n *yaml.Node, path string) {
			var status int
			d.number(&status, 100, 599)(n, path)
			*to = append(*to, status)
		})
		if isEmpty(n) {
			d.failf(n, path, "is empty")
		}
	}
}

func (d *decoder) texts(to *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.list(n, path, func(_ int, n *yaml.Node, path string) {
			var text string
			d.label(&text)(n, path)
			*to = append(*to, text)
		})
		if isEmpty(n) {
			d.failf(n, path, "is empty")
		}
	}
}
