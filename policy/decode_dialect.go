package policy

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit/learn"
)

// readDialect reads how a service speaks of its limits. Its keys are the fields of
// learn.Dialect.
func readDialect(d *Decoder, n *yaml.Node, path string) *learn.Dialect {
	out := &learn.Dialect{}
	before := len(d.loading.faults)
	set := d.Mapping(n, path, dialectFields(d, out)...)
	if len(d.loading.faults) > before || !IsMapping(n) {
		return nil
	}
	if len(set) == 0 || len(set) == 1 && set["paths"] != nil {
		d.Failf(n, path, "says nothing; write headers, body, refusals, reset_unit, retry_unit, scope, statuses or apart")
		return nil
	}
	if err := out.Check(); err != nil {
		// learn checks the dialect as a whole, and names the part that is wrong
		where, what, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			where, what = "", err.Error()
		}
		d.Failf(below(n, where), strings.TrimSuffix(path+"."+where, "."), "%s", what)
	}
	return out
}

// dialectFields are the keys of a dialect.
func dialectFields(d *Decoder, out *learn.Dialect) []Field {
	headers := func(to *[]learn.Header, spelling func(string) string) Value {
		return Sequence(d, to, isEmpty, func(h *learn.Header) Value { return Object(d, headerFields(d, h, spelling)) })
	}
	refusals := Sequence(d, &out.Refusals, isEmpty, func(r *learn.Refusal) Value {
		v := Object(d, refusalFields(d, r))
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
		Optional("scope", "Which requests a refusal is about.", scopeValue(d, &out.Scope)),
		Optional("statuses", "Statuses that refuse a request for a limit.", Listed(d, &out.Statuses, isEmpty, d.status)),
		Optional("paths", "The paths whose answers are read so.", Listed(d, &out.Paths, isEmpty, d.pathPrefix)),
		Optional("apart", "Patterns of paths with limits of their own.", Listed(d, &out.Apart, isEmpty, func(to *string) Value { return NewValue(d.Label(to).Read, func() Node { return PatternNode("^/") }) })),
	}
}

// headerSpelling is a header's name as learn has it.
func headerSpelling(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	return strings.Replace(name, "rate-limit", "ratelimit", 1)
}

// pathPrefix is one of paths.
func (d *Decoder) pathPrefix(to *string) Value {
	return Parsed(d, to, func(s string) (string, error) {
		s, err := parseLabel(s)
		if err == nil && !strings.HasPrefix(s, "/") {
			err = fmt.Errorf("%s does not begin with a slash", Quote(s))
		}
		return s, err
	}, func() Node { return PatternNode("^/") })
}

// refusalFields are the keys of a refusal.
func refusalFields(d *Decoder, r *learn.Refusal) []Field {
	return []Field{
		Optional("status", "Statuses of such an answer, any from 400 on if it is left out.", Listed(d, &r.Status, isEmpty, d.status)),
		Optional("says", "Texts of which the answer has one, any if it is left out.", Listed(d, &r.Says, isEmpty, d.Label)),
		Optional("in", "Where the text is: a header, or the body if it is left out.", Parsed(d, &r.In, func(s string) (string, error) {
			s, err := parseLabel(s)
			return strings.ToLower(strings.TrimSpace(s)), err
		}, FilledNode)),
		Optional("and", "A text that the answer has besides.", d.Label(&r.And)),
		Optional("scope", "Which requests the refusal is about.", scopeValue(d, &r.Scope)),
		Optional("wait", "How long to wait.", Parsed(d, &r.Wait, ParseDuration, DurationNode)),
		Optional("until", "The time zone whose midnight ends the refusal.", Parsed(d, &r.Until, parseTimezone, TimezoneNode)),
		Optional("key", "The member of the JSON body with the seconds to wait.", d.Label(&r.Key)),
		Optional("prose", "The text before the seconds to wait.", d.Label(&r.Prose)),
		Optional("spent", "Whether the announced limits are used up, whatever they say.", d.Truth(&r.Spent)),
		Optional("lock", "Whether another request held a lock, so that no rate was exceeded.", d.Truth(&r.Lock)),
		Optional("concurrency", "Whether too many requests were in flight.", d.Truth(&r.Concurrency)),
		Optional("overload", "Whether the server is short of capacity, whatever the rate of requests is.", d.Truth(&r.Overload)),
		Optional("block", "Whether everything is refused for a while, and asking again prolongs that.", d.Truth(&r.Block)),
		Optional("permanent", "Whether waiting does not help, as the token is not paid for or not valid.", d.Truth(&r.Permanent)),
		Optional("reason", "What is wrong with the token, in some words.", d.Label(&r.Reason)),
		Optional("fine", "Whether the answer is no refusal after all.", d.Truth(&r.Fine)),
		Optional("hint", "Whether the answer is no refusal, and its wait applies.", d.Truth(&r.Hint)),
	}
}

// scopeValue is the value that says which requests a limit or a refusal is about.
func scopeValue(d *Decoder, to *learn.Scope) Value {
	words := []string{learn.Token.String(), learn.Route.String(), learn.Site.String()}
	return Parsed(d, to, func(s string) (learn.Scope, error) {
		name, err := ParseWord(s, words...)
		scope, _ := learn.ParseScope(name)
		return scope, err
	}, func() Node { return WordNode(words...) })
}

// status is the reader of a status of an answer.
func (d *Decoder) status(to *int) Value { return d.Number(to, 100, 599) }

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
func headerFields(d *Decoder, h *learn.Header, spelling func(string) string) []Field {
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
		Optional("scope", "Which requests the limit is about.", scopeValue(d, &h.Scope)),
		Optional("method", "The method of the requests that the limit is about.", Parsed(d, &h.Method, parseMethod, methodNode)),
		Optional("in", "The unit of a bare number.", Parsed(d, &h.In, parseTimeUnit, timeUnitNode)),
		Optional("window", "The window of the limit.", Parsed(d, &h.Window, ParseDuration, DurationNode)),
		Optional("windows", "The windows of the limits, where the value has several numbers.", Listed(d, &h.Windows, "", func(to *time.Duration) Value {
			return Parsed(d, to, ParseDuration, DurationNode)
		})),
		Optional("aligned", "Whether the windows begin on the clock, in UTC.", d.Truth(&h.Aligned)),
	}
}
