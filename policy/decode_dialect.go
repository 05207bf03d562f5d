package policy

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit/learn"
)

// dialectReading is a dialect that is being read, and the node of each of its parts: learn
// checks the dialect as a whole and names the part that is wrong.
type dialectReading struct {
	d    *Decoder
	path string
	at   map[string]*yaml.Node // :: headers[0].name → its value
}

// readDialect reads how a service speaks of its limits. Its keys are the fields of
// learn.Dialect.
func readDialect(d *Decoder, n *yaml.Node, path string) *learn.Dialect {
	g := &dialectReading{d, path, map[string]*yaml.Node{}}
	out := &learn.Dialect{}
	before := d.loading.count()
	set := d.Mapping(n, path, g.fields(out)...)
	if d.loading.count() > before || !IsMapping(n) {
		return nil
	}
	if len(set) == 0 || len(set) == 1 && set["paths"] != nil {
		d.Failf(n, path, "says nothing; write headers, body, refusals, reset_unit, retry_unit, scope, statuses or apart")
		return nil
	}
	if err := out.Check(); err != nil {
		g.explain(n, err)
	}
	return out
}

// fields are the keys of a dialect.
func (g *dialectReading) fields(out *learn.Dialect) []Field {
	d := g.d
	headers := func(to *[]learn.Header, spelling func(string) string) Value {
		return Sequence(d, to, isEmpty, func(h *learn.Header) Value { return g.part(g.headerFields(h, spelling)) })
	}
	refusals := Sequence(d, &out.Refusals, isEmpty, func(r *learn.Refusal) Value {
		v := g.part(g.refusalFields(r))
		return NewValue(v.Read, func() Node {
			n := v.Schema()
			n["anyOf"] = []Node{{"required": []string{"status"}}, {"required": []string{"says"}}}
			return n
		})
	})
	return []Field{
		Optional("headers", "Headers of an answer that say something about a limit.", headers(&out.Headers, headerSpelling)),
		Optional("body", "Members of a JSON body that say something about a limit.", headers(&out.Body, strings.TrimSpace)),
		Optional("refusals", "Answers that refuse a request for a limit.", refusals),
		Optional("reset_unit", "The unit of a bare number that says when a limit is renewed.", Parsed(d, &out.ResetUnit, parseTimeUnit, timeUnitNode)),
		Optional("retry_unit", "The unit of a bare number that says when to ask again.", Parsed(d, &out.RetryUnit, parseTimeUnit, timeUnitNode)),
		Optional("scope", "Which requests a refusal is about.", g.scope(&out.Scope)),
		Optional("statuses", "Statuses that refuse a request for a limit.", Listed(d, &out.Statuses, isEmpty, g.status)),
		Optional("paths", "The paths whose answers are read so.", Listed(d, &out.Paths, isEmpty, g.pathPrefix)),
		Optional("apart", "Patterns of paths with limits of their own.", Listed(d, &out.Apart, isEmpty, g.apart)),
	}
}

// explain reports a fault that learn found at the node that it names.
func (g *dialectReading) explain(n *yaml.Node, err error) {
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
	g.d.Failf(n, strings.TrimSuffix(g.path+"."+where, "."), "%s", what)
}

// part is the value with some keys. It keeps where the value and the values of its keys are.
func (g *dialectReading) part(fields []Field) Value {
	return NewValue(func(n *yaml.Node, path string) {
		key := g.keep(n, path)
		for name, value := range g.d.Mapping(n, path, fields...) {
			g.at[key+"."+name] = value
		}
	}, func() Node { return ObjectNode(fields) })
}

// keep keeps where a part of the dialect is, and returns the part's name.
func (g *dialectReading) keep(n *yaml.Node, path string) (key string) {
	key = strings.TrimPrefix(path, g.path+".")
	g.at[key] = n
	return key
}

// headerSpelling is a header's name as learn has it.
func headerSpelling(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.Replace(name, "rate-limit", "ratelimit", 1)
}

// pathPrefix is one of paths.
func (g *dialectReading) pathPrefix(to *string) Value {
	return Parsed(g.d, to, func(s string) (string, error) {
		s, err := parseLabel(s)
		if err == nil && !strings.HasPrefix(s, "/") {
			err = fmt.Errorf("%s does not begin with a slash", Quote(s))
		}
		return s, err
	}, func() Node { return PatternNode("^/") })
}

// apart reads one of the paths of apart, and keeps where it is.
func (g *dialectReading) apart(to *string) Value {
	return NewValue(func(n *yaml.Node, path string) {
		g.d.Label(to).Read(n, path)
		g.keep(n, path)
	}, func() Node { return PatternNode("^/") })
}

// refusalFields are the keys of a refusal.
func (g *dialectReading) refusalFields(r *learn.Refusal) []Field {
	d := g.d
	return []Field{
		Optional("status", "Statuses of such an answer, any from 400 on if it is left out.", Listed(d, &r.Status, isEmpty, g.status)),
		Optional("says", "Texts of which the answer has one, any if it is left out.", Listed(d, &r.Says, isEmpty, d.Label)),
		Optional("in", "Where the text is: a header, or the body if it is left out.", NewValue(func(n *yaml.Node, path string) {
			g.d.Label(&r.In).Read(n, path)
			r.In = strings.ToLower(strings.TrimSpace(r.In))
		}, FilledNode)),
		Optional("and", "A text that the answer has besides.", g.d.Label(&r.And)),
		Optional("scope", "Which requests the refusal is about.", g.scope(&r.Scope)),
		Optional("wait", "How long to wait.", Parsed(d, &r.Wait, ParseDuration, DurationNode)),
		Optional("until", "The time zone whose midnight ends the refusal.", Parsed(d, &r.Until, parseTimezone, TimezoneNode)),
		Optional("key", "The member of the JSON body with the seconds to wait.", g.d.Label(&r.Key)),
		Optional("prose", "The text before the seconds to wait.", g.d.Label(&r.Prose)),
		Optional("spent", "Whether the announced limits are used up, whatever they say.", g.d.Truth(&r.Spent)),
		Optional("lock", "Whether another request held a lock, so that no rate was exceeded.", g.d.Truth(&r.Lock)),
		Optional("concurrency", "Whether too many requests were in flight.", g.d.Truth(&r.Concurrency)),
		Optional("overload", "Whether the server is short of capacity, whatever the rate of requests is.", g.d.Truth(&r.Overload)),
		Optional("block", "Whether everything is refused for a while, and asking again prolongs that.", g.d.Truth(&r.Block)),
		Optional("permanent", "Whether waiting does not help, as the token is not paid for or not valid.", g.d.Truth(&r.Permanent)),
		Optional("reason", "What is wrong with the token, in some words.", g.d.Label(&r.Reason)),
		Optional("fine", "Whether the answer is no refusal after all.", g.d.Truth(&r.Fine)),
		Optional("hint", "Whether the answer is no refusal, and its wait applies.", g.d.Truth(&r.Hint)),
	}
}

// scope is the value that says which requests a limit or a refusal is about.
func (g *dialectReading) scope(to *learn.Scope) Value {
	return Parsed(g.d, to, parseScope, func() Node {
		return WordNode(learn.Token.String(), learn.Route.String(), learn.Site.String())
	})
}

func parseScope(s string) (learn.Scope, error) {
	name, err := ParseWord(s, learn.Token.String(), learn.Route.String(), learn.Site.String())
	scope, _ := learn.ParseScope(name)
	return scope, err
}

// status is the reader of a status of an answer.
func (g *dialectReading) status(to *int) Value { return g.d.Number(to, 100, 599) }

// units are the words for what a limit counts.
var units = []string{"requests", "tokens", "points", "content-bytes", "weight", "concurrent-requests", "percent"}

func parseUnit(s string) (learn.Unit, error) {
	word, err := ParseWord(s, units...)
	if word == "requests" {
		return learn.Requests, err
	}
	return learn.Unit(word), err
}

// headerFields are the keys of a header, or of a member of a body. spelling returns a name as learn has it.
func (g *dialectReading) headerFields(h *learn.Header, spelling func(string) string) []Field {
	d := g.d
	parseName := func(s string) (string, error) {
		name, err := parseLabel(s)
		return spelling(name), err
	}
	return []Field{
		Required("name", "The name of the header, or the path of the member of the body.", Parsed(d, &h.Name, parseName, FilledNode)),
		Required("is", "What its value says.", Word(d, &h.Is, learn.Roles()...)),
		Optional("form", "How its value is written.", Word(d, &h.Form, learn.Forms()...)),
		Optional("of", "The limit that it is about, where a site has several.", d.Label(&h.Of)),
		Optional("unit", "What the limit counts.", Parsed(d, &h.Unit, parseUnit, func() Node { return WordNode(units...) })),
		Optional("scope", "Which requests the limit is about.", g.scope(&h.Scope)),
		Optional("method", "The method of the requests that the limit is about.", Parsed(d, &h.Method, parseMethod, methodNode)),
		Optional("in", "The unit of a bare number.", Parsed(d, &h.In, parseTimeUnit, timeUnitNode)),
		Optional("window", "The window of the limit.", Parsed(d, &h.Window, ParseDuration, DurationNode)),
		Optional("windows", "The windows of the limits, where the value has several numbers.", Listed(d, &h.Windows, "", func(to *time.Duration) Value {
			return Parsed(d, to, ParseDuration, DurationNode)
		})),
		Optional("aligned", "Whether the windows begin on the clock, in UTC.", d.Truth(&h.Aligned)),
	}
}
