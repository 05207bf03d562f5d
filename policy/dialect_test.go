package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

func TestADialectIsWrittenAsLearnHasIt(t *testing.T) {
	p := load(t, `
sites:
  - host: api.test
    name: shop
    dialect:
      paths: [/v1/, /v2/]
      headers:
        - {name: X-Rate_Limit-Calls-Left, is: remaining, of: calls, unit: points, scope: site, method: GET, window: 1m, aligned: true}
        - {name: "x-used-*", is: used, form: suffix, unit: requests}
        - {name: x-app, is: limit, form: list, windows: [1m, 1d]}
        - {name: x-again, is: retry, in: ms}
      body:
        - {name: quotaLeft, is: remaining, in: 10s}
      refusals:
        - {status: 200, says: slow down, wait: 30s, scope: route}
        - {status: [400, 403], says: ["code=4", "80000-80014"], and: error, in: X-Reason, until: Europe/Berlin, key: retry_after, prose: "try in ", spent: on, lock: on, permanent: on, reason: no credit, fine: on, hint: on}
      reset_unit: ms
      retry_unit: 1m
      scope: token
      statuses: [420, 430]
      apart: [/v1/projects/*, /v2/*/projects/*]
  - {host: b.test}
`)
	want := &learn.Dialect{
		Name: "shop", Paths: []string{"/v1/", "/v2/"},
		Headers: []learn.Header{
			{Name: "x-ratelimit-calls-left", Is: learn.IsRemaining, Of: "calls", Unit: learn.Points, Scope: learn.Site, Method: "GET", Window: time.Minute, Aligned: true},
			{Name: "x-used-*", Is: learn.IsUsed, Form: learn.Suffix},
			{Name: "x-app", Is: learn.IsLimit, Form: learn.List, Windows: []time.Duration{time.Minute, 24 * time.Hour}},
			{Name: "x-again", Is: learn.IsRetry, In: time.Millisecond},
		},
		Body: []learn.Header{{Name: "quotaLeft", Is: learn.IsRemaining, In: 10 * time.Second}},
		Refusals: []learn.Refusal{
			{Status: []int{200}, Says: []string{"slow down"}, Wait: 30 * time.Second, Scope: learn.Route},
			{
				Status: []int{400, 403}, Says: []string{"code=4", "80000-80014"}, And: "error", In: "x-reason", Until: "Europe/Berlin", Key: "retry_after", Prose: "try in ",
				Spent: true, Lock: true, Permanent: true, Reason: "no credit", Fine: true, Hint: true,
			},
		},
		ResetUnit: time.Millisecond, RetryUnit: time.Minute, Scope: learn.Token, Statuses: []int{420, 430},
		Apart: []string{"/v1/projects/*", "/v2/*/projects/*"},
	}
	if got := p.Sites[0].Dialect; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	if p.Sites[1].Dialect != nil {
		t.Error("a dialect out of nothing")
	}
	// What it is for: 7 of the points are left.
	lesson := learn.Read(200, map[string][]string{"X-Ratelimit-Calls-Left": {"7"}}, nil, learn.Request{Method: "GET", Host: "api.test", Path: "/v1/a", Dialect: p.Sites[0].Dialect}, time.Now())
	if len(lesson.Limits) != 1 || lesson.Limits[0].Remaining.N != 7 || lesson.Limits[0].Unit != learn.Points {
		t.Errorf("%+v", lesson)
	}
}

// Every field of learn.Dialect can be written, apart from the name and the hosts,
// which are the rule's.
func TestADialectLacksNoField(t *testing.T) {
	snake := func(name string) string {
		var b strings.Builder
		for i, r := range name {
			if i > 0 && r >= 'A' && r <= 'Z' {
				b.WriteByte('_')
			}
			b.WriteRune(r)
		}
		return strings.ToLower(b.String())
	}
	for of, typ := range map[string]reflect.Type{
		"": reflect.TypeFor[learn.Dialect](), "headers": reflect.TypeFor[learn.Header](), "body": reflect.TypeFor[learn.Header](), "refusals": reflect.TypeFor[learn.Refusal](),
	} {
		for i := range typ.NumField() {
			name := snake(typ.Field(i).Name)
			if of == "" && (name == "name" || name == "hosts" || name == "limits") { // a rule has limits of its own
				continue
			}
			text := name + ": {}"
			if of != "" {
				text = of + ": [{" + text + "}]"
			}
			if faults := refuse(t, "sites: [{host: a.test, dialect: {"+text+"}}]"); strings.Contains(faults.Error(), "is not a key") {
				t.Errorf("%s cannot be written: %v", text, faults)
			}
		}
	}
}

func TestWhatIsWrongWithADialectIsSaidWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                              ": says nothing; write headers",
		"{paths: /a/}":                    ": says nothing",
		"[a]":                             ": takes keys with values, not a list",
		"{scope: site, paths: [a]}":       `.paths[0]: "a" does not begin with a slash`,
		"{scope: host}":                   `.scope: "host" is none of token, route, site`,
		"{scop: site}":                    `.scop: is not a key; did you mean "scope"?`,
		"{name: a}":                       ".name: is not a key",
		"{reset_unit: 5}":                 `.reset_unit: "5" is not a unit of time; write ms, s, m, h or d`,
		"{retry_unit: sek}":               `.retry_unit: "sek" is not a unit of time`,
		"{statuses: [42]}":                `.statuses[0]: "42" is less than 100`,
		"{statuses: []}":                  ".statuses: is empty",
		"{apart: []}":                     ".apart: is empty",
		"{apart: projects}":               `.apart[0]: "projects" does not begin with a slash and end with the segment that tells budgets apart, as /v1/projects/* does`,
		"{apart: [/a/*, /a/**/*]}":        `.apart[1]: "/a/**/*": each segment is a name, or a * for any`,
		"{headers: []}":                   ".headers: is empty",
		"{headers: {name: a, is: limit}}": ".headers: takes a list",
		"{headers: [{is: limit}]}":        ".headers[0]: needs name",
		"{headers: [{name: x-left}]}":     ".headers[0]: needs is",
		"{headers: [{name: x-left, is: remainnig}]}":            `.headers[0].is: "remainnig" is none of limit, remaining`,
		"{headers: [{name: x-left, is: reset, From: list}]}":    `.headers[0].From: is not a key; did you mean "form"?`,
		"{headers: [{name: x-left, is: limit, form: lits}]}":    `did you mean "list"?`,
		"{headers: [{name: x-left, is: limit, form: list}]}":    ".headers[0]: a list needs windows",
		"{headers: [{name: x-left, is: limit, unit: token}]}":   `did you mean "tokens"?`,
		"{headers: [{name: x-left, is: limit, window: 60}]}":    `.headers[0].window: "60" needs a unit`,
		"{headers: [{name: x-left, is: limit, windows: [60]}]}": `.headers[0].windows[0]: "60" needs a unit`,
		"{headers: [{name: x-left, is: limit, in: fast}]}":      `.headers[0].in: "fast" is not a unit of time`,
		"{headers: [{name: x-left, is: limit, method: get}]}":   `did you mean "GET"?`,
		"{headers: [{name: x-left, is: limit, aligned: yes}]}":  `.headers[0].aligned: "yes" is neither true nor false`,
		"{headers: [{name: \"x-*-left\", is: limit}]}":          `.headers[0].name: "x-*-left": a * stands at the end`,
		"{headers: [{name: http-left, is: limit}]}":             `.headers[0].name: "http-left" has to be in lower case`,
		"{headers: [{name: x, is: limit, name: y}]}":            ".headers[0].name: is written twice",
		"{body: [{name: a, is: most}]}":                         `.body[0].is: "most" is none of`,
		"{body: [{name: \" \", is: limit}]}":                    ".body[0].name: is empty",
		"{refusals: [{overload: true}]}":                        ".refusals[0]: needs status or says",
		"{refusals: [{says: []}]}":                              ".refusals[0].says: is empty",
		"{refusals: [{says: [a, \"\"]}]}":                       ".refusals[0].says[1]: is empty",
		"{refusals: [{says: a, status: 600}]}":                  `.refusals[0].status: "600" is more than 599`,
		"{refusals: [{says: a, wait: 30}]}":                     `.refusals[0].wait: "30" needs a unit`,
		"{refusals: [{says: a, until: Nowhere}]}":               `.refusals[0].until: "Nowhere" is not a time zone`,
		"{refusals: [{says: a, wiat: 30s}]}":                    `.refusals[0].wiat: is not a key; did you mean "wait"?`,
		"{refusals: [{says: a, spent: 1}]}":                     ".refusals[0].spent: \"1\" is neither",
		"{refusals: [{says: \"${A}\"}]}":                        "is replaced in secrets only",
	} {
		place := "abide.yaml:3: sites[0].dialect"
		if strings.HasPrefix(want, ".") || strings.HasPrefix(want, ":") {
			place, want = place+want, ""
		}
		refuse(t, "sites:\n  - host: a.test\n    dialect: "+text+"\n", place, want)
	}
	// What learn alone knows is said at the line of the key, too.
	refuse(t, "sites:\n  - host: a.test\n    dialect:\n      apart:\n        - /a/*\n        - /a/b\n", `abide.yaml:6: sites[0].dialect.apart[1]: "/a/b" does not begin`)
	refuse(t, "sites:\n  - host: a.test\n    dialect:\n      headers:\n        - is: limit\n          name: \"x-*-left\"\n", `abide.yaml:6: sites[0].dialect.headers[0].name: "x-*-left": a * stands at the end`)
}

func TestLearningIsOnUnlessSomebodySaysOtherwise(t *testing.T) {
	text := "sites: [{host: a.test}, {host: b.test, learn: off}, {host: c.test, learn: on}]\n"
	host := func(p *Policy, name string) bool {
		return p.Match(Target{Scheme: "https", Host: name, Port: 443}).Learn
	}
	for add, want := range map[string]string{"": "a.test c.test d.test", "defaults: {learn: off}": "c.test"} {
		p := load(t, text+add)
		var got []string
		for _, name := range []string{"a.test", "b.test", "c.test", "d.test"} {
			if host(p, name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v learn, want %s", add, got, want)
		}
		if p.Interception("a.test", 443, false).Open || p.Interception("c.test", 443, false).Open {
			t.Error("learning has opened https")
		}
	}
	p, err := loadSource(t, Source{Data: []byte(text), Environ: []string{"ABIDE_DEFAULTS_LEARN=off"}})
	if err != nil || host(p, "a.test") || !host(p, "c.test") {
		t.Error("the variable was not heard", err)
	}
	const says = ".dialect: says how to read limits, but none are learned here; write learn: true in the rule, or leave the dialect out"
	refuse(t, "sites:\n  - host: a.test\n    learn: off\n    dialect: {scope: site}\n", "abide.yaml:4: sites[0]"+says)
	refuse(t, "sites:\n  - {host: a.test, dialect: {scope: site}}\ndefaults: {learn: off}\n", "abide.yaml:2: sites[0]"+says)
	refuse(t, "sites:\n  - {host: a.test, learn: 1}\n", "abide.yaml:2: sites[0].learn: \"1\" is neither true nor false")
}
