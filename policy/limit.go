package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

// Unit is the quantity that a limit counts.
type Unit string

// The units. Cost counts requests by their weight.
const (
	Requests    Unit = "requests"
	Bytes       Unit = "bytes"
	Cost        Unit = "cost"
	Concurrency Unit = "concurrency"
)

// DefaultStall is the longest pause of a body because of a byte limit without a stall of
// its own.
const DefaultStall = 90 * time.Second

// Limit is an amount of a unit per window, and for whom.
type Limit struct {
	As     limit.As
	Unit   Unit
	Amount int64  // of Unit; 0 for adaptive
	Per    Period // zero for concurrency and adaptive
	By     string // what has a budget of its own: "" all together, token, client or route

	Method string // of the requests it is about, "" for all
	Path   string // pattern of their path, "" for all; * is one segment, ** any number

	Each     int64         // what one request takes from it; 0 is 1
	Burst    int64         // of a bucket
	Min, Max Rate          // of adaptive
	Stall    time.Duration // of bytes: how long a body may stand still before it is cut
	Timezone string        // of a quota, an IANA name

	route *regexp.Regexp // of Path
}

// Covers tells whether the limit is about requests with this method and this
// path, which is escaped and without its query. It does not allocate for a path in canonical spelling.
func (l *Limit) Covers(method, path string) bool {
	return (l.Method == "" || l.Method == method) && (l.Path == "" || l.route.MatchString(NormalPath(path)))
}

// NeedsRequests tells whether the limit can only be kept by seeing requests, as
// those in flight have to be, too. Bytes can be counted in a tunnel, as long as
// they are everyone's or the client's.
func (l Limit) NeedsRequests() bool {
	return l.Unit != Bytes || l.Method != "" || l.Path != "" || l.By == "token" || l.By == "route"
}

// Spec is the arithmetic of the limit.
func (l *Limit) Spec() (limit.Spec, error) {
	s := limit.Spec{As: l.As, Amount: l.Amount, Window: l.Per.Length, Burst: l.Burst, Min: float64(l.Min), Max: float64(l.Max), Period: l.Per.Calendar}
	if l.Timezone == "" {
		return s, nil
	}
	var err error
	s.Location, err = time.LoadLocation(l.Timezone)
	return s, err
}

// Traits are those of the limit's kind.
func (l *Limit) Traits() limit.Traits { return l.As.Traits() }

// Shared tells whether instances that have one store keep the limit together. The
// others hold for each instance by itself: what is in flight, what is paced, a rate
// that is found out, and a bucket that has no room to be divided.
func (l *Limit) Shared() bool {
	s, err := l.Spec()
	return err == nil && s.Shareable()
}

// Title is a short name of the limit for people and for labels of metrics: "900
// requests per 15m". It tells the limits of a rule apart, and does not depend on
// the order in which they are written.
func (l *Limit) Title() string {
	kind := ""
	switch {
	case !l.Traits().Windowed:
	case l.As != l.usual():
		kind = " (" + string(l.As) + ")"
	case l.Timezone != "" && l.Timezone != "UTC":
		kind = " (" + l.Timezone + ")"
	}
	return l.amount() + kind + l.about()
}

// usual is the arithmetic of a limit that does not name one.
func (l *Limit) usual() limit.As {
	switch {
	case l.Per.Calendar != "":
		return limit.Quota
	case l.Unit == Bytes:
		return limit.Fixed
	}
	return limit.Rolling
}

func (l *Limit) amount() string {
	switch {
	case l.Traits().Adapts:
		return fmt.Sprintf("adaptive between %s and %s", l.Min, l.Max)
	case l.Unit == Concurrency:
		return fmt.Sprintf("%d in flight", l.Amount)
	case l.Unit == Requests && l.Amount == 1:
		return "1 request per " + l.Per.String()
	}
	return l.number(l.Amount) + when(l.Unit != Bytes, " "+string(l.Unit)) + " per " + l.Per.String()
}

// number is a number of the limit's unit, of bytes with their unit.
func (l *Limit) number(n int64) string {
	if l.Unit == Bytes {
		return Size(n).String()
	}
	return strconv.FormatInt(n, 10)
}

func (l *Limit) about() string {
	route := strings.TrimSpace(l.Method + " " + l.Path)
	return when(l.By != "", " by "+l.By) + when(route != "", " for "+route)
}

// String is the limit in a few words: "900 requests per 15m by token (rolling)".
func (l Limit) String() string {
	return l.amount() + when(l.Burst > 0, ", "+l.number(l.Burst)+" at once") + l.about() +
		when(l.Each > 1, fmt.Sprintf(", each request counts %d", l.Each)) +
		when(l.Unit == Bytes && l.Stall > 0 && l.Stall != DefaultStall, ", stall "+formatDuration(l.Stall)) +
		when(l.Traits().Windowed, " ("+string(l.As)+when(l.Timezone != "", ", "+l.Timezone)+")")
}

// ofClient describes the limit of a client.
func (l Limit) ofClient() string { return l.String() + ", for all its requests together" }

// long tells whether a limit's window is a day or longer.
func (l *Limit) long() bool { return l.Traits().Calendar || l.Per.Length >= 24*time.Hour }

// mostAmount of any unit is a petabyte, and far from overflowing.
const mostAmount = 1e15

// parseAmount reads an amount of requests or of what they cost.
func parseAmount(s string) (int64, error) { return parseCount(s, 1, mostAmount) }

// leastBytes is the least amount of a byte limit: the size of a short answer with its
// headers and TLS.
const leastBytes = 4 * kib

// parseBytes reads an amount of bytes for a limit.
func parseBytes(s string) (int64, error) {
	size, err := ParseSize(s)
	switch {
	case err != nil:
		return 0, err
	case size < leastBytes:
		err = fmt.Errorf("%s is less than %s, in which no answer with its headers and TLS would fit", Quote(s), leastBytes)
		if number, unit, _ := cutPart(s); strings.EqualFold(unit, "B") && digits(number) {
			err = fmt.Errorf("%w; did you mean %skB?", err, number)
		}
		return 0, err
	case size > mostAmount:
		return 0, fmt.Errorf("%s is more than %s", Quote(s), Size(mostAmount))
	}
	return int64(size), nil
}

// parseConcurrency reads how many requests may be in flight, for which there is no window.
func parseConcurrency(s string) (int64, error) {
	if amount, _, found := cutWindow(s); found && digits(amount) {
		return 0, fmt.Errorf("%s has a time, but concurrency is how many are in flight at once; write requests: %s, or concurrency: %s", Quote(s), s, amount)
	}
	return parseAmount(s)
}

// amountNode describes the values that parseAmount reads.
func amountNode() Node {
	return numberNode(1, mostAmount, `^\s*`+positivePattern+`\s*$`)
}

// KnownLimit is a limit that a service documents, as the limit of a rule.
func KnownLimit(k *learn.KnownLimit) *Limit {
	if k.AtOnce > 0 {
		return &Limit{As: limit.Concurrency, Unit: Concurrency, Amount: k.AtOnce}
	}
	return &Limit{As: limit.Rolling, Unit: Requests, Amount: k.Requests, Per: Period{Length: k.Per}}
}

// LimitAtOnce has at most n requests in flight at each site, also where the rule of a site allows more.
func (p *Policy) LimitAtOnce(n int) {
	atOnce := func(l Limit) bool { return l.Unit == Concurrency && l.By+l.Method+l.Path == "" }
	narrow := func(limits *[]Limit) {
		*limits = slices.DeleteFunc(*limits, func(l Limit) bool { return atOnce(l) && l.Amount > int64(n) })
		if !slices.ContainsFunc(*limits, atOnce) {
			*limits = append(*limits, Limit{As: limit.Concurrency, Unit: Concurrency, Amount: int64(n)})
		}
	}
	narrow(&p.Defaults.Limits)
	for i := range p.Sites {
		narrow(&p.Sites[i].Limits)
	}
}

// LimitRequests reports whether any of the limits bounds how many requests go in some time.
// Where none does, those hold that the service documents.
func LimitRequests(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.Unit != Concurrency && l.Unit != Bytes })
}

// LearnedTitle is the name of a limit that a site has taught, for people and for labels
// of metrics: "75 per 15m for GET /2/tweets/*". title states the amount, "75 per 15m", and
// route the requests that the limit counts: a route, or the site's name for the limit.
// Limits of the same amount for different routes have different names. A title that has
// its route in it already stays as it is.
//
// LearnedTitle does for learned limits what Limit.Title does for written limits.
func LearnedTitle(title, route string) string {
	switch {
	case title == "" || title == route:
		return cmp.Or(route, "all requests")
	case route == "" || strings.Contains(title, route):
		return title
	}
	return title + " for " + route
}

// ParseLimits reads limits that are set at run time: {"limits": [{"requests": 10,
// "per": "1s"}]}, as JSON or as YAML, in the words of the configuration and with its
// checks. An empty list is no limits at all, and never nil. The error is a Faults,
// each with its line and place in the body.
//
// A limit by token is accepted; the caller knows whether the site has tokens.
func ParseLimits(body []byte) ([]Limit, error) {
	limits := []Limit{}
	faults := ReadDocument(Source{Path: "body", Data: body}, "", func(d *Decoder, root *yaml.Node) {
		if root == nil {
			d.Failf(&yaml.Node{}, "", "is empty; write {limits: [{requests: 10, per: 1s}]}, or {limits: []} for none")
			return
		}
		d.Mapping(root, "", Required("limits", "", Value{Read: func(n *yaml.Node, path string) {
			limits = append(limits, readLimits(d, n, path, ofPooled)...)
		}}))
	})
	if len(faults) > 0 {
		return nil, faults
	}
	return limits, nil
}

// FormatLimits writes limits as ParseLimits reads them.
func FormatLimits(limits []Limit) ([]byte, error) {
	all := []string{}
	for i := range limits {
		text, err := limits[i].written()
		if err != nil {
			return nil, fmt.Errorf("limits[%d]: %w", i, err)
		}
		all = append(all, text)
	}
	return []byte(`{"limits":[` + strings.Join(all, ",") + "]}"), nil
}

// LimitsText writes limits as YAML, in the form of config.example.yaml: a line for each.
func LimitsText(limits []Limit) (string, error) {
	written, err := FormatLimits(limits)
	var says struct{ Limits []yaml.Node }
	if err == nil {
		err = yaml.Unmarshal(written, &says) // JSON is YAML
	}
	text := "limits:"
	for i := range says.Limits {
		for _, word := range says.Limits[i].Content {
			word.Style = 0 // quoted only where that is needed
		}
		line, failed := yaml.Marshal(&says.Limits[i])
		text, err = text+"\n  - "+strings.TrimSpace(string(line)), cmp.Or(err, failed)
	}
	if len(says.Limits) == 0 {
		text += " []"
	}
	return text + "\n", err
}

// written returns the limit as JSON, with its keys in the order of their table.
func (l *Limit) written() (string, error) {
	r := &limitReading{limit: *l}
	if l.Unit == Concurrency {
		r.limit.As = ""
	}
	var members []string
	for _, f := range r.fields() {
		if f.to == nil || reflect.ValueOf(f.to).Elem().IsZero() {
			continue
		}
		text, err := json.Marshal(word(f.to))
		if err != nil {
			return "", err
		}
		members = append(members, fmt.Sprintf("%q:%s", f.name, text))
	}
	if !slices.Contains([]Unit{Requests, Bytes, Cost, Concurrency}, l.Unit) && !l.Traits().Adapts {
		return "", fmt.Errorf("a limit of %q is not known", l.Unit)
	}
	return "{" + strings.Join(members, ",") + "}", nil
}

// exact is the rate as parseRate reads it to the last bit, where there is such a
// text. A rate is seldom more than a number per second, minute, hour or day; what
// else it may be is looked for among the lengths of time that people write.
func (r Rate) exact() string {
	try := func(per time.Duration) (string, bool) {
		amount := strconv.FormatFloat(float64(r)*per.Seconds(), 'f', 9, 64)
		length := formatDuration(per)
		if length[0] == '1' && !digits(length[1:2]) {
			length = length[1:] // 1/s, not 1/1s
		}
		text := strings.TrimSuffix(strings.TrimRight(amount, "0"), ".") + "/" + length
		read, err := parseRate(text)
		return text, err == nil && read == r
	}
	units := []time.Duration{time.Second, time.Minute, time.Hour, day, time.Millisecond}
	for n := time.Duration(1); n <= 100; n++ {
		for _, unit := range units {
			if text, ok := try(n * unit); ok {
				return text
			}
		}
	}
	text, _ := try(longest) // which leaves the most digits
	return text
}
