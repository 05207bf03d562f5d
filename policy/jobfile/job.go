// Package jobfile reads the file of a job: which requests abide sends by itself, and where their
// records go. It is pure, as package policy is, whose reader of documents it uses.
//
// The usual call:
//
//	job, err := jobfile.Load(policy.Source{Path: "orders.yaml", Data: data, Environ: os.Environ()})
package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/policy"
)

// Job is a job file as Load reads it. A backfill asks once for each unit of Range or Items; a
// collection asks every Every.
type Job struct {
	Name     string
	File     string // absolute path of the job file
	Request  Request
	Range    *Range // with Items, each item has each step; Since goes with Items or alone
	Items    *Items
	Since    *Since
	Paginate Pagination // the zero value: answers have one page
	Records  string     // path of the records in a body, such as data.items; "": the body itself
	ID       []string   // paths in a record that identify it, or texts with placeholders; empty: the hash of the record and of its unit
	Placed   bool       // ID is empty, and the place of a record in the pages of its unit identifies it, too
	Kept     bool       // the job says what becomes of records that have changed: by id or replace
	Alone    bool       // that hash is of the record alone, as in a table of an older release
	Moves    bool       // records may move between units
	Replace  bool       // what comes of a unit takes the place of all that it had
	Columns  []Column
	Workers  int
	Tries    int         // how often a page is asked for before its unit fails
	Memory   policy.Size // of answers that are not written yet
	Errors   []Rule      // of answers; the first that matches counts
	Output   Output
	Notify   Notify
	Collect  Collection // zero unless the job says every
}

// Rule says what becomes of the unit of an answer.
type Rule struct {
	Status int    // of the answer; 0: any
	Path   string // of a value in the body; "": none is needed
	Is     string // that value; "": any but null, false and an empty text
	Then   string // retry, skip, reject or stop
}

// Request is the request of a unit. URL, Body and the values of Headers may have the
// placeholders {date}, {from}, {to}, {item}, {item.NAME} and {since}.
type Request struct {
	Method      string // in capitals
	URL         string
	Headers     []Header
	Body        string
	Idempotency bool // each unit gets an Idempotency-Key
	Priority    int  // 0, the most urgent, to 7
}

// Header is a header of a job's request. Its value may be a secret.
type Header struct {
	Name  string
	Value policy.Secret
}

// Range is a range of time in steps. Each step is a unit.
type Range struct {
	From, To time.Time // in Zone. To is the start of the last step
	Step     Step
	Zone     *time.Location
	Again    Step // the last part of the range, which each run fetches again; zero: none
}

// Step is the length of a unit of a range: so many minutes, hours, days, or months of the calendar.
type Step struct {
	N    int
	Unit string // "min", "h", "d" or "mo"; "": it is a number
}

// Clock returns the length of a step of minutes or hours; 0: it is none.
func (s Step) Clock() time.Duration {
	return time.Duration(s.N) * map[string]time.Duration{"min": time.Minute, "h": time.Hour}[s.Unit]
}

// Before is a time that is a step earlier than another.
func (s Step) Before(at time.Time) time.Time {
	n := map[string]int{s.Unit: s.N}
	return at.AddDate(0, -n["mo"], -n["d"]).Add(-s.Clock())
}

// String returns the step as it is written, such as "1d".
func (s Step) String() string { return fmt.Sprintf("%d%s", s.N, s.Unit) }

// Since has each run ask for what is newer than the greatest value of a column, which {since} is.
type Since struct {
	Column string
	From   string // in place of it while there are no records
	Lag    Step   // so much earlier, or less, than that value
}

// IsNumber tells whether the values of the column are numbers, as From is.
func (s *Since) IsNumber() bool {
	_, err := strconv.ParseFloat(s.From, 64)
	return err == nil
}

// Items are the items of a job. Each item is a unit. One of List, Numbers, File and Job is set.
type Items struct {
	List    []string
	Numbers struct{ From, To, Step int } // an item is the first number of a step, {item.last} the last; Step 0: none
	File    string                       // an absolute path: a line an item, or a CSV file if Column is set
	Job     Output                       // the output of another job
	Name    string                       // of the other job; "": the only job in its output
	Column  string                       // of the CSV file or of the records of the other job, there also "id"
	Query   string                       // a SELECT whose first column has the items, on the other job's output, in place of Column
}

// Styles of pagination.
const (
	NoPages     = ""
	AutoPages   = "auto"
	OffsetPages = "offset"
	PagePages   = "page"
	CursorPages = "cursor"
	LinkPages   = "link"
	NextPages   = "next_url"
)

// Pagination describes the way from an answer to the next page.
type Pagination struct {
	Style     string `yaml:"style"`                // see the constants
	In        string `yaml:"in,omitempty"`         // where Param and SizeParam stand: InBody, or the query of the URL
	Param     string `yaml:"param,omitempty"`      // parameter that carries the offset, the number of the page or the cursor; a path in a body that is JSON
	SizeParam string `yaml:"size_param,omitempty"` // parameter that carries Size; "": none
	Size      int    `yaml:"size,omitempty"`       // records of a full page; 0: unknown
	First     int    `yaml:"first,omitempty"`      // number of the first page or the first offset; or UnknownFirst
	Next      string `yaml:"next,omitempty"`       // path of the cursor or of the URL of the next page in the body
	Header    string `yaml:"header,omitempty"`     // header that has the cursor, in place of Next
	More      string `yaml:"more,omitempty"`       // path of a truth value in the body that says whether there is another page; "": none
	Total     string `yaml:"total,omitempty"`      // path of the number of all records in the body; "": none
	MaxPages  int    `yaml:"-"`                    // a walk of more pages is incomplete
	Unchecked bool   `yaml:"-"`                    // what answers say of further pages counts only where the style follows it
}

// InBody is Pagination.In where the parameters stand in the body of the request: JSON, or else a form.
const InBody = "body"

// UnknownFirst is Pagination.First where the job does not say it: it is that of the URL or body of a unit, else 0, or 1 where
// the server counts its pages from 1.
const UnknownFirst = -1

// Draft is a part of a job file: the keys about an answer. Those that are empty are left out.
type Draft struct {
	Paginate Pagination `yaml:"paginate,omitempty,flow"`
	Records  string     `yaml:"records,omitempty"`
	ID       []string   `yaml:"id,omitempty,flow"`
	Columns  []Column   `yaml:"columns,omitempty,flow"` // of ColumnOf
}

// Text is the part of the file.
func (d *Draft) Text() string {
	text, _ := yaml.Marshal(d) // texts and numbers have no error
	return strings.TrimPrefix(string(text), "{}\n")
}

// Notify names whom a job tells that it has ended.
type Notify struct {
	URL     policy.Secret // that a JSON document is posted to
	Command []string      // that has the document as its standard input
	Always  bool          // also if it did not fail
}

// Output names the place that records go to. One of both is set.
type Output struct {
	File string        // absolute path of a SQLite file
	URL  policy.Secret // postgres://…
}

// String returns the output without a password.
func (o Output) String() string {
	if o.File != "" {
		return o.File
	}
	u, err := url.Parse(o.URL.Reveal())
	if err != nil {
		return "postgres://…"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// Collection describes the rounds of a job.
type Collection struct {
	Every    time.Duration // 0: the job is no collection
	Batch    Batch
	All      bool          // store: all. Otherwise records that have not changed are not stored again
	Keep     time.Duration // how long records are stored; 0: for ever
	Priority []Priority    // of targets; the first that matches counts
}

// Batch puts several items into one request.
type Batch struct {
	Param string // query parameter with the items; "": one item a request
	Size  int
	Join  string // between items
}

// Priority is the priority of the items that match a pattern.
type Priority struct {
	Items    string // a pattern with *
	Priority int
}

// request reads the request of a job: its URL alone, or keys.
func (r *reader) request() policy.Value {
	to := &r.job.Request
	url := policy.Parsed(r.d, &to.URL, parseURL, urlNode)
	return policy.Either(r.d, url, func(_ *yaml.Node, path string, set map[string]*yaml.Node) {
		if set["body"] != nil && to.Method == "GET" {
			r.d.Failf(set["body"], path+".body", "does not go with GET; set method")
		}
		if set["idempotency"] == nil {
			to.Idempotency = !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, to.Method)
		}
	},
		policy.Required("url", "The URL of a unit.", url),
		policy.Optional("method", "The method, GET if it is left out.", policy.Parsed(r.d, &to.Method, func(s string) (string, error) { return policy.ParseWord(strings.ToUpper(s), methods...) }, func() policy.Node {
			return policy.EitherNode(policy.WordNode(methods...), policy.PatternNode("^[A-Za-z]+$"))
		})),
		policy.Optional("headers", "Headers of each request, whose values may have ${NAME}.", policy.NewValue(r.headers, func() policy.Node { return policy.MapNode(headerName.String(), policy.SecretNode()) })),
		policy.Optional("body", "The body of each request.", r.plain(&to.Body)),
		policy.Optional("idempotency", "Whether each unit has an Idempotency-Key.", r.d.Truth(&to.Idempotency)),
		policy.Optional("priority", "0, the most urgent, to 7.", r.d.Number(&to.Priority, 0, policy.LowestPriority)),
	)
}

// urlNode describes the values that parseURL reads, as far as a pattern tells.
func urlNode() policy.Node { return policy.PatternNode(`^[hH][tT][tT][pP][sS]?://.`) }

// parseURL reads a URL with placeholders.
func parseURL(s string) (string, error) {
	if err := checkPlaceholders(s); err != nil {
		return "", err
	}
	u, err := url.Parse(ReplacePlaceholders(s, func(string, string) string { return "x" }))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s is no URL with http:// or https:// and a host", policy.Quote(s))
	case u.User != nil:
		return "", errors.New("has a user or password; send them in an Authorization header, or use a pool of tokens")
	case strings.Contains(u.Host, "{"), strings.Contains(s[:strings.Index(s, "://")], "{"):
		return "", fmt.Errorf("%s has a placeholder that is none", policy.Quote(s))
	}
	if _, err := policy.ParseTarget(u.Scheme, u.Host); err != nil {
		return "", err
	}
	return s, nil
}

// placeholder finds {date}, {date:2006/01}, {item.name} and the like.
var placeholder = regexp.MustCompile(`\{(date|from|to|since|item(?:\.[A-Za-z_][A-Za-z0-9_]*)?)(:[^{}]*)?\}`)

// ReplacePlaceholders replaces each placeholder by what value returns for its name and form, as
// "date" and "2006/01/02"; the form is "" where there is none.
func ReplacePlaceholders(text string, value func(name, form string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name, form, _ := strings.Cut(found[1:len(found)-1], ":")
		return value(name, form)
	})
}

// AsPath is the form of an item whose slashes part the path, as in {item:path}.
const AsPath = "path"

// braced finds what looks like a placeholder.
var braced = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.]*)(:[^{}]*)?\}`)

// ItemValues returns the names of the values of an item, besides itself, that the job uses: {item.name} is one.
func (j *Job) ItemValues() (names []string) {
	for _, text := range j.texts() {
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			if _, name, ok := strings.Cut(found[1], "."); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// texts are the texts that may have placeholders, by the keys that they stand at.
func (j *Job) texts() map[string]string {
	all := map[string]string{"request.url": j.Request.URL, "request.body": j.Request.Body}
	for _, h := range j.Request.Headers {
		all["request.headers."+h.Name] = h.Value.Reveal()
	}
	for _, c := range j.Columns {
		if HasPlaceholder(c.Path) {
			all["columns."+c.Name] = c.Path
		}
	}
	for _, text := range j.ID {
		if HasPlaceholder(text) {
			all["id "+text] = text
		}
	}
	return all
}

// HasPlaceholder tells whether a text has a placeholder, and so is about a unit.
func HasPlaceholder(text string) bool { return placeholder.MatchString(text) }

// HashesUnit tells whether a record is known by its hash and its unit: the same may be in several units.
func (j *Job) HashesUnit() bool {
	return len(j.ID) == 0 && !j.Alone && j.Collect.Every == 0 && (j.Range != nil || j.Items != nil)
}

// Doubles says what becomes of records that have changed where a job fetches units again, or all of them with again, and does not
// say what identifies a record; "" where nothing has to be said.
func (j *Job) Doubles(again bool, now time.Time) string {
	r := j.Range
	if j.Kept || !again && j.Since == nil && (r == nil || r.Again.N == 0 && !r.To.After(r.Step.Before(now))) {
		return ""
	}
	text := "units are fetched again, and id is not written: a record that has changed is stored beside what it was; write id: and what identifies a record, "
	if j.Since == nil {
		text += "or replace: unit, "
	}
	return text + "or id: hash if both are to stay"
}

// checkPlaceholders refuses words in braces that are no placeholders.
func checkPlaceholders(s string) error {
	words := []string{"date", "from", "to", "item", "since"}
	for _, found := range braced.FindAllStringSubmatch(s, -1) {
		name, value, _ := strings.Cut(found[1], ".")
		if !slices.Contains(words, name) || value != "" && name != "item" {
			return fmt.Errorf("has {%s}, which is no placeholder%s; there are {date}, {from}, {to}, {item}, {item.NAME} and {since}", found[1], policy.DidYouMean(name, words))
		}
		if form := strings.TrimPrefix(found[2], ":"); found[2] != "" && (name == "item" && form != AsPath || name == "since" || name != "item" && !isDateForm(form)) {
			return fmt.Errorf("has {%s%s}, whose form is none; write one such as {date:2006/01/02}, {date:unix} or {item:path}", found[1], found[2])
		}
	}
	return nil
}

// isDateForm tells whether a form writes different times differently.
func isDateForm(form string) bool {
	if slices.Contains([]string{"unix", "unix_ms", "rfc3339"}, form) {
		return true
	}
	at, other := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), time.Date(2017, 10, 28, 19, 40, 50, 0, time.UTC)
	return at.Format(form) != other.Format(form)
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"}

var headerName = regexp.MustCompile(policy.HeaderPattern)

// ownHeaders are set by HTTP itself.
var ownHeaders = []string{"host", "content-length", "connection", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-authorization"}

// headers reads the headers of a request. Their values may have ${NAME}.
func (r *reader) headers(n *yaml.Node, path string) {
	r.d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
		h := Header{Name: name}
		switch {
		case !headerName.MatchString(name):
			r.d.Failf(key, path, "is no name of a header")
		case slices.Contains(ownHeaders, strings.ToLower(name)), strings.HasPrefix(strings.ToLower(name), "abide-"):
			r.d.Failf(key, path, "cannot be set by a job")
		}
		if slices.ContainsFunc(r.job.Request.Headers, func(jobHeader Header) bool { return strings.EqualFold(jobHeader.Name, name) }) {
			r.d.Failf(key, path, "is there twice")
		}
		r.d.Secret(&h.Value).Read(value, path)
		if err := checkPlaceholders(h.Value.Reveal()); err != nil {
			r.d.Fail(value, path, err)
		}
		r.job.Request.Headers = append(r.job.Request.Headers, h)
	})
}

// pageKeys are the keys of paginate that a style has besides style and max_pages, and before the
// bar those that it needs. Each style has check, too.
var pageKeys = map[string]string{
	"none":      "",
	AutoPages:   "| in size size_param",
	OffsetPages: "| in param size size_param first more total",
	PagePages:   "| in param size size_param first more total",
	CursorPages: "param | in next header size size_param more total",
	LinkPages:   "| size size_param",
	NextPages:   "next | size size_param more total",
}

// pageStyles are all styles.
var pageStyles = []string{"none", AutoPages, OffsetPages, PagePages, CursorPages, LinkPages, NextPages}

// paginate reads how pages follow each other: the style alone, or keys.
func (r *reader) paginate() policy.Value {
	to := &r.job.Paginate
	style := policy.Word(r.d, &to.Style, pageStyles...)
	return policy.Either(r.d, style, r.checkPages,
		policy.Optional("style", "How pages follow each other.", style),
		policy.Optional("in", "Where the parameters stand: in the query of the URL, or in the body.", policy.Word(r.d, &to.In, "query", InBody)),
		policy.Optional("param", "The parameter with the offset, the page or the cursor; in a body that is JSON a path such as variables.after.", r.d.Label(&to.Param)),
		policy.Optional("size", "Records of a full page.", r.d.Number(&to.Size, 1, 1_000_000)),
		policy.Optional("size_param", "The parameter with the size.", r.d.Label(&to.SizeParam)),
		policy.Optional("first", "The first page or offset.", r.d.Number(&to.First, 0, 1_000_000)),
		policy.Optional("next", "The path of the cursor or of the URL in the body.", r.jsonPath(&to.Next)),
		policy.Optional("header", "The header that has the cursor.", r.d.Label(&to.Header)),
		policy.Optional("more", "The path of a true or false in the body.", r.jsonPath(&to.More)),
		policy.Optional("total", "The path of the number of all records.", r.jsonPath(&to.Total)),
		policy.Optional("check", "Whether a unit is incomplete where an answer says that there are more pages than came.", r.choice(&to.Unchecked, "on", "off")),
		policy.Optional("max_pages", "How many pages a unit has at most.", r.d.Number(&to.MaxPages, 1, 1_000_000_000)),
	)
}

// checkPages refuses keys of paginate that do not go with the style.
func (r *reader) checkPages(n *yaml.Node, path string, set map[string]*yaml.Node) {
	to := &r.job.Paginate
	style := to.Style
	keys, known := pageKeys[style]
	if !known {
		if set["style"] == nil {
			r.d.Failf(n, path, "needs style: %s", strings.Join(pageStyles, ", "))
		}
		return
	}
	needed, allowed, _ := strings.Cut(keys, "|")
	for _, key := range strings.Fields(needed) {
		if set[key] == nil {
			r.d.Failf(n, path, "needs %s with style %s", key, style)
		}
	}
	for _, key := range []string{"in", "param", "size", "size_param", "first", "next", "header", "more", "total"} {
		if set[key] != nil && !slices.Contains(strings.Fields(needed+allowed), key) {
			r.d.Failf(set[key], path+"."+key, "does not go with style %s", style)
		}
	}
	if style == CursorPages && (set["next"] == nil) == (set["header"] == nil) {
		r.d.Failf(n, path, "needs next, the path of the cursor in the body, or header, the name of the header that has it")
	}
	switch style {
	case "none":
		to.Style = NoPages
	case OffsetPages, PagePages:
		if to.Param = cmp.Or(to.Param, style); set["first"] == nil {
			to.First = UnknownFirst
		}
	}
}
