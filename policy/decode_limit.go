package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit"
)

// owner is the kind of section that a list of limits belongs to.
type owner int

const (
	ofRule   owner = iota // or of defaults
	ofPooled              // a rule with a pool
	ofPool
	ofClient
)

// readLimits reads a list of limits. Those by token need a pool.
func readLimits(d *Decoder, n *yaml.Node, path string, of owner) []Limit {
	var all []Limit
	seen := map[Limit]int{}
	read := d.Sequence
	if IsScalar(n) {
		read = d.List // a rate alone is a list of one
	}
	read(n, path, func(_ int, n *yaml.Node, path string) {
		l, ok := readLimit(d, n, path)
		if !ok {
			return
		}
		switch {
		case of == ofClient && (l.By != "" || l.As == limit.Adaptive):
			d.Failf(n, path, "is for all requests of the client together: it has no by, and is not adaptive; such limits belong into a rule")
		case l.By == "token" && of == ofRule:
			d.Failf(n, path, "counts by token where there is no pool, which a rule has with pool: NAME")
		case of == ofPool && l.By != "token":
			d.Failf(n, path, "needs by: token, as limits of a pool are each token's; others belong into a rule")
		}
		same := Limit{As: l.As, Unit: l.Unit, Per: l.Per, By: l.By, Method: l.Method, Path: l.Path, Timezone: l.Timezone}
		if line, twice := seen[same]; twice {
			d.Failf(n, path, "limits the same as line %d; only the tighter one would ever bind", line)
			return
		}
		seen[same] = n.Line
		all = append(all, l)
	})
	return all
}

// requestsOf is the limit that a rate alone means: 5/s is {requests: 5/s}. Every other
// node is returned as it is.
func requestsOf(n *yaml.Node) *yaml.Node {
	amount, _, found := cutWindow(n.Value)
	if _, err := parseAmount(amount); !IsScalar(n) || !found || err != nil {
		return n
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "requests", Line: n.Line, Column: n.Column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column, Content: []*yaml.Node{key, n}}
}

func readLimit(d *Decoder, n *yaml.Node, path string) (Limit, bool) {
	if n = requestsOf(n); IsScalar(n) {
		d.Failf(n, path, "takes a limit, such as {requests: 5, per: 1s}, or 5/s for requests alone")
		return Limit{}, false
	}
	r := &limitReading{d: d}
	l := &r.limit
	before := len(d.loading.faults)
	set := d.Mapping(n, path, r.fields()...)
	if parse := parseAmount; r.burst != nil {
		if set["bytes"] != nil {
			parse = parseBytes
		}
		Parsed(d, &l.Burst, parse, nil).Read(r.burst, join(path, "burst"))
	}
	if len(d.loading.faults) > before || !IsMapping(n) {
		return *l, false
	}
	behind := r.per != Period{}
	switch {
	case behind && set["per"] != nil:
		d.Failf(set["per"], join(path, "per"), "stands behind the amount already; write one of them")
		return *l, false
	case behind:
		l.Per = r.per
	}
	if err := l.complete(func(key string) bool { return set[key] != nil || behind && key == "per" }); err != nil {
		d.Fail(n, path, err)
		return *l, false
	}
	return *l, true
}

// limitReading is a limit that is being read.
type limitReading struct {
	d     *Decoder
	limit Limit
	burst *yaml.Node // read last, since it is a size where bytes are counted
	per   Period     // written after the amount, as in 5/s
}

// fields are the keys of a limit.
func (r *limitReading) fields() []Field {
	d, l := r.d, &r.limit
	return []Field{
		Optional("requests", "How many requests, perhaps with their window: 900, 5/s, 5 per minute.", r.amount(Requests, parseAmount, amountPerNode)),
		Optional("bytes", "How many bytes in both directions, with headers and TLS.", r.amount(Bytes, parseBytes, func() Node {
			return PatternNode(`^\s*`+sizePattern()+`(?:`+perPattern+windowPattern()+`)?\s*$`).suchAs("1MB", "1MB/m").shared("bytes")
		})),
		Optional("cost", "How much of what the header Abide-Cost of each request says, 1 if it says nothing.", r.amount(Cost, parseAmount, amountPerNode)),
		Optional("concurrency", "How many requests at once.", r.amount(Concurrency, parseConcurrency, amountNode)),
		Optional("per", "The window: a duration, or day, week or month of the calendar.", Parsed(d, &l.Per, parsePeriod, func() Node {
			return PatternNode(`^\s*`+windowPattern()+`\s*$`).suchAs("15m", "day", "month").shared("window")
		})),
		Optional("as", "How the limit counts.", Word(d, &l.As, limit.Kinds()...)),
		Optional("by", "Each client, each route or each token of the pool has the limit for itself.", Word(d, &l.By, "token", "client", "route")),
		Optional("method", "The method of the requests that are under the limit.", Parsed(d, &l.Method, parseMethod, methodNode)),
		Optional("path", "The paths that are under the limit: * is one segment, ** any number of segments.", d.scalar(PlainText, func(s string) (err error) {
			l.Path = s
			l.route, err = parseRoute(s)
			return err
		}, func() Node { return PatternNode(`^(?:/(?:\*\*?|[^/*?#]*))+$`).suchAs("/2/tweets/*", "/v1/**") }).into(&l.Path)),
		Optional("each", "What one request takes, 1 if it is left out.", Parsed(d, &l.Each, parseAmount, amountNode)),
		Optional("burst", "How many at once; a size where bytes are counted.", NewValue(
			func(n *yaml.Node, _ string) { r.burst = n },
			func() Node { return EitherNode(amountNode(), SizeNode()) },
		).into(l.counted(&l.Burst))),
		Optional("min", "The least rate of an adaptive limit.", Parsed(d, &l.Min, parseRate, rateNode)),
		Optional("max", "The largest rate of an adaptive limit.", Parsed(d, &l.Max, parseRate, rateNode)),
		Optional("stall", "How long a body under a limit of bytes may stand still.", Parsed(d, &l.Stall, parseStall, DurationNode)),
		Optional("timezone", "Of a day, week or month of the calendar.", Parsed(d, &l.Timezone, parseTimezone, TimezoneNode)),
	}
}

// limitsValue reads a list of limits.
func limitsValue(d *Decoder, to *[]Limit, of owner) Value {
	return NewValue(func(n *yaml.Node, path string) { *to = readLimits(d, n, path, of) }, limitsNode).into(to)
}

// limitsNode is the schema of a list of limits. A rate alone is a list of one.
func limitsNode() Node {
	item := EitherNode(ratePerNode(), ObjectNode((&limitReading{}).fields()))
	return EitherNode(ratePerNode(), SequenceNode(item, 0)).shared("limits")
}

// complete fills in what the keys imply and refuses those that do not go
// together.
func (l *Limit) complete(has func(key string) bool) error {
	var units []string
	for _, u := range []Unit{Requests, Bytes, Cost, Concurrency} {
		if has(string(u)) {
			units, l.Unit = append(units, string(u)), u
		}
	}
	switch {
	case len(units) > 1:
		return fmt.Errorf("limits %s; write one limit for each", strings.Join(units, " and "))
	case l.Traits().Adapts && l.Unit == Bytes:
		return errors.New("is adaptive, which finds out how many requests a site bears, and not how many bytes; write {bytes: …, per: 1m} and {as: adaptive, min: 0.2/s, max: 20/s} apart")
	case l.Traits().Adapts:
		return l.completeAdaptive(has, len(units) > 0)
	case has("min"), has("max"):
		return errors.New("has min or max, which are for as: adaptive")
	case len(units) == 0:
		return errors.New("limits nothing; write requests, bytes, cost or concurrency")
	case (l.Unit == Concurrency) != l.Traits().InFlight && l.As != "":
		return errors.New("as: concurrency goes with concurrency, and with nothing else")
	}
	if l.Unit == Concurrency {
		l.As = limit.Concurrency
		return withoutWindow(has, "what is in flight")
	}
	if !has("per") {
		return fmt.Errorf("needs per, such as {%s: …, per: 1m}", l.Unit)
	}
	return l.completeWindow(has)
}

func (l *Limit) completeWindow(has func(string) bool) error {
	calendar := l.Per.Calendar != ""
	l.As = cmp.Or(l.As, l.usual())
	switch {
	case calendar != l.Traits().Calendar:
		return errors.New("as: quota goes with per: day, week or month, and only that")
	case !l.Traits().Calendar && has("timezone"):
		return errors.New("has a timezone, which only a day, week or month has")
	case !l.Traits().Burst && has("burst"):
		kinds := limit.KindsWith(func(t limit.Traits) bool { return t.Burst })
		return fmt.Errorf("has a burst, which only as: %s has", strings.Join(kinds, " or "))
	case l.Unit != Bytes && has("stall"):
		return errors.New("has stall, which is for bytes")
	case l.Unit == Bytes && has("each"):
		return errors.New("has each, but bytes are counted as they come")
	case l.Unit == Bytes && l.Traits().Spaced:
		return errors.New("paces bytes, which come in pieces and never one by one; as: bucket with a burst such as 64KiB evens them out")
	}
	if l.Unit == Bytes && l.Stall == 0 {
		l.Stall = DefaultStall
	}
	room := l.Amount
	if l.Traits().Burst {
		if !has("burst") {
			l.Burst = 1
			if l.Unit == Bytes {
				l.Burst = l.Amount
			}
		}
		room = l.Burst
	}
	if l.Each > room {
		return fmt.Errorf("takes %d for each request but never has more than %d, so none could pass", l.Each, room)
	}
	if l.Traits().Calendar && l.Timezone == "" {
		l.Timezone = "UTC"
	}
	return nil
}

// withoutWindow refuses the keys of limits that have a window.
func withoutWindow(has func(string) bool, of string) error {
	for _, key := range []string{"per", "burst", "each", "timezone", "stall"} {
		if has(key) {
			return fmt.Errorf("has %s, which means nothing for %s", key, of)
		}
	}
	return nil
}

// slowest and fastest bound min and max of an adaptive limit.
const (
	slowest Rate = 1e-6
	fastest Rate = 1e9
)

// completeAdaptive checks an adaptive limit and has it count requests. has tells whether a key is
// written, unit whether an amount is.
func (l *Limit) completeAdaptive(has func(string) bool, unit bool) error {
	if unit {
		return errors.New("is adaptive, so it takes min and max and no amount")
	}
	if err := withoutWindow(has, "as: adaptive"); err != nil {
		return err
	}
	switch {
	case !has("min"), !has("max"):
		return errors.New("needs min and max, such as {as: adaptive, min: 0.2/s, max: 20/s}")
	case l.Min > l.Max:
		return fmt.Errorf("has a min of %s, which is more than its max of %s", l.Min, l.Max)
	case l.Min < slowest:
		return fmt.Errorf("has a min of %s, which is less than %s, one in about twelve days", l.Min, slowest)
	case l.Max > fastest:
		return fmt.Errorf("has a max of %s, which is more than %s", l.Max, fastest)
	}
	l.Unit = Requests
	return nil
}

// amount reads an amount of a unit that may have its window behind it: 900, 5/s, 5 per minute.
// What is in flight has no window.
func (r *limitReading) amount(unit Unit, parse func(string) (int64, error), schema func() Node) Value {
	v := r.d.scalar(PlainText, func(amount string) (err error) {
		if before, window, found := cutWindow(amount); found && unit != Concurrency {
			amount = before
			r.per, err = parsePeriod(window)
		}
		if err == nil {
			r.limit.Amount, err = parse(amount)
		}
		return err
	}, schema)
	if r.limit.Unit == unit {
		v = v.into(r.limit.counted(&r.limit.Amount))
	}
	return v
}

// counted returns the pointer to an amount of the limit, as a size where the limit is of bytes.
func (l *Limit) counted(amount *int64) any {
	if l.Unit == Bytes {
		return (*Size)(amount)
	}
	return amount
}
