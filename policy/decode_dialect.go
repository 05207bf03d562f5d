package policy

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit/learn"
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
	set := d.mapping(n, path, g.fields(out)...)
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

// fields are the keys of a dialect.
func (g *dialecting) fields(out *learn.Dialect) []field {
	headers := func() node { return sequenceNode(objectNode((&headerReading{dialecting: g}).fields()), 1) }
	refusals := func() node { return sequenceNode(objectNode(g.refusalFields(&learn.Refusal{})), 1) }
	return []field{
		optional("headers", "Headers of an answer that say something about a limit.", value{func(n *yaml.Node, path string) { out.Headers = g.headers(n, path, headerSpelling) }, headers}),
		optional("body", "Members of a JSON body that say something about a limit.", value{func(n *yaml.Node, path string) { out.Body = g.headers(n, path, strings.TrimSpace) }, headers}),
		optional("refusals", "Answers that refuse a request for a limit.", value{func(n *yaml.Node, path string) { out.Refusals = g.refusals(n, path) }, refusals}),
		optional("reset_unit", "The unit of a bare number that says when a limit is renewed.", parsed(g.decoder, &out.ResetUnit, parseTimeUnit, timeUnitNode)),
		optional("retry_unit", "The unit of a bare number that says when to ask again.", parsed(g.decoder, &out.RetryUnit, parseTimeUnit, timeUnitNode)),
		optional("scope", "Which requests a refusal is about.", g.scope(&out.Scope)),
		optional("statuses", "Statuses that refuse a request for a limit.", listed(g.decoder, &out.Statuses, g.status)),
		optional("paths", "The paths whose answers are read so.", listed(g.decoder, &out.Paths, g.pathPrefix)),
		optional("apart", "Patterns of paths with limits of their own.", listed(g.decoder, &out.Apart, g.apart)),
	}
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

// pathPrefix is one of paths. That it begins with a slash is checked when all are read.
func (g *dialecting) pathPrefix(to *string) value {
	return value{g.label(to).read, func() node { return patternNode("^/") }}
}

// apart reads one of the paths of apart, and keeps where it is.
func (g *dialecting) apart(to *string) value {
	return value{func(n *yaml.Node, path string) {
		g.label(to).read(n, path)
		g.at[strings.TrimPrefix(path, g.path+".")] = n
	}, func() node { return patternNode("^/") }}
}

func (g *dialecting) headers(n *yaml.Node, path string, spelling func(string) string) []learn.Header {
	var all []learn.Header
	g.elements(n, path, func(n *yaml.Node, path string) map[string]*yaml.Node {
		r := &headerReading{dialecting: g}
		set := g.mapping(n, path, r.fields()...)
		all = append(all, r.done(spelling))
		return set
	})
	return all
}

// headerReading is what a header says, while it is being read.
type headerReading struct {
	*dialecting
	learn.Header
	is, form, unit string
}

// fields are the keys of a header, or of a member of a body.
func (r *headerReading) fields() []field {
	d, h := r.decoder, &r.Header
	return []field{
		required("name", "The name of the header, or the path of the member of the body.", r.label(&h.Name)),
		required("is", "What its value says.", r.word(&r.is, learn.Roles()...)),
		optional("form", "How its value is written.", r.word(&r.form, learn.Forms()...)),
		optional("of", "The limit that it is about, where a site has several.", r.label(&h.Of)),
		optional("unit", "What the limit counts.", r.word(&r.unit, "requests", "tokens", "points", "content-bytes", "weight", "concurrent-requests", "percent")),
		optional("scope", "Which requests the limit is about.", r.scope(&h.Scope)),
		optional("method", "The method of the requests that the limit is about.", parsed(d, &h.Method, parseMethod, methodNode)),
		optional("in", "The unit of a bare number.", parsed(d, &h.In, parseTimeUnit, timeUnitNode)),
		optional("window", "The window of the limit.", parsed(d, &h.Window, ParseDuration, durationNode)),
		optional("windows", "The windows of the limits, where the value has several numbers.", value{func(n *yaml.Node, path string) {
			r.list(n, path, func(_ int, n *yaml.Node, path string) {
				var window time.Duration
				parsed(d, &window, ParseDuration, durationNode).read(n, path)
				h.Windows = append(h.Windows, window)
			})
		}, func() node { return listNode(durationNode()) }}),
		optional("aligned", "Whether the windows begin on the clock, in UTC.", r.truth(&h.Aligned)),
	}
}

// done is the header that was read.
func (r *headerReading) done(spelling func(string) string) learn.Header {
	if r.unit == "requests" {
		r.unit = string(learn.Requests)
	}
	h := r.Header
	h.Name, h.Is, h.Form, h.Unit = spelling(h.Name), learn.Role(r.is), learn.Form(r.form), learn.Unit(r.unit)
	return h
}

func (g *dialecting) refusals(n *yaml.Node, path string) []learn.Refusal {
	var all []learn.Refusal
	g.elements(n, path, func(n *yaml.Node, path string) map[string]*yaml.Node {
		var r learn.Refusal
		set := g.mapping(n, path, g.refusalFields(&r)...)
		all = append(all, r)
		return set
	})
	return all
}

// refusalFields are the keys of a refusal.
func (g *dialecting) refusalFields(r *learn.Refusal) []field {
	d := g.decoder
	return []field{
		optional("status", "Statuses of such an answer, any from 400 on if it is left out.", listed(d, &r.Status, g.status)),
		required("says", "Texts of which the answer has one.", listed(d, &r.Says, g.label)),
		optional("in", "Where the text is: a header, or the body if it is left out.", value{func(n *yaml.Node, path string) {
			g.label(&r.In).read(n, path)
			r.In = strings.ToLower(strings.TrimSpace(r.In))
		}, filledNode}),
		optional("and", "A text that the answer has besides.", g.label(&r.And)),
		optional("scope", "Which requests the refusal is about.", g.scope(&r.Scope)),
		optional("wait", "How long to wait.", parsed(d, &r.Wait, ParseDuration, durationNode)),
		optional("until", "The time zone whose midnight ends the refusal.", parsed(d, &r.Until, parseTimezone, timezoneNode)),
		optional("key", "The member of the JSON body with the seconds to wait.", g.label(&r.Key)),
		optional("prose", "The text before the seconds to wait.", g.label(&r.Prose)),
		optional("spent", "Whether the announced limits are used up, whatever they say.", g.truth(&r.Spent)),
		optional("lock", "Whether another request held a lock, so that no rate was exceeded.", g.truth(&r.Lock)),
		optional("concurrency", "Whether too many requests were in flight.", g.truth(&r.Concurrency)),
		optional("overload", "Whether the server is short of capacity, whatever the rate of requests is.", g.truth(&r.Overload)),
		optional("block", "Whether everything is refused for a while, and asking again prolongs that.", g.truth(&r.Block)),
		optional("permanent", "Whether waiting does not help.", g.truth(&r.Permanent)),
		optional("fine", "Whether the answer is no refusal after all.", g.truth(&r.Fine)),
		optional("hint", "Whether the answer is no refusal, and its wait applies.", g.truth(&r.Hint)),
	}
}

// scope is the value that says which requests a limit or a refusal is about.
func (g *dialecting) scope(to *learn.Scope) value {
	return parsed(g.decoder, to, parseScope, func() node {
		return wordNode(learn.Token.String(), learn.Route.String(), learn.Site.String())
	})
}

func parseScope(s string) (learn.Scope, error) {
	name, err := parseWord(s, learn.Token.String(), learn.Route.String(), learn.Site.String())
	scope, _ := learn.ParseScope(name)
	return scope, err
}

// status is the reader of a status of an answer.
func (g *dialecting) status(to *int) value { return g.number(to, 100, 599) }
