package jobfile

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/policy"
)

// Defaults of a job.
const (
	defaultWorkers = 4
	defaultTries   = 10
	defaultMemory  = 64 << 20
	// collectionWorkers is the default for collections, whose targets may be slow to answer.
	collectionWorkers = 256
	// mostWorkers bounds the requests of a job at one time.
	mostWorkers = 1000
	// defaultMostPages is the default of paginate.max_pages.
	defaultMostPages = 1_000_000
)

// Load reads and checks a job file. The error is a policy.Faults, with every fault at once, and the job has the rest.
func Load(src policy.Source) (*Job, error) {
	path, err := filepath.Abs(src.Path)
	if err != nil {
		path = src.Path
	}
	j := &Job{
		File: path, Request: Request{Method: "GET", Priority: policy.DefaultPriority}, Workers: defaultWorkers, Tries: defaultTries,
		Paginate: Pagination{MaxPages: defaultMostPages}, Memory: defaultMemory,
	}
	faults := policy.ReadDocument(src, filepath.Dir(path), func(d *policy.Decoder, root *yaml.Node) {
		if root == nil {
			d.Failf(&yaml.Node{Line: 1}, "", "is empty; docs/jobs.md begins with a job")
			return
		}
		r := &reader{d: d, job: j}
		set := d.Mapping(root, "", r.fields()...)
		j.Kept = set["id"] != nil || set["replace"] != nil
		if j.Placed = slices.Equal(j.ID, []string{"place"}); j.Placed || slices.Equal(j.ID, []string{"hash"}) {
			j.ID = nil
		}
		r.check(set)
	})
	if len(faults) > 0 {
		return j, faults
	}
	if j.Output == (Output{}) {
		j.Output.File = filepath.Join(filepath.Dir(path), j.Name+".db")
	}
	return j, nil
}

// Schema returns the JSON Schema of a job file.
func Schema() []byte {
	r := &reader{d: &policy.Decoder{}, job: &Job{}}
	return policy.WriteSchema("Job of abide", policy.ObjectNode(r.fields()))
}

// reader reads the document of a job file.
type reader struct {
	d   *policy.Decoder
	job *Job
}

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// fields are the keys of a job file.
func (r *reader) fields() []policy.Field {
	j := r.job
	return []policy.Field{
		policy.Required("name", "Of the job and its table: letters, digits, - and _.", r.d.Matching(&j.Name, nameForm, "is no name of a job: a letter, then letters, digits, - and _, 40 characters at most")),
		policy.Required("request", "What is asked for each unit. {date}, {from}, {to}, {item} and {since} are replaced.", r.request()),
		policy.Optional("range", "The dates of the job. Each step is a unit.", r.dates()),
		policy.Optional("items", "The items of the job, each of which is a unit: a file with a line for each, a list, or where they come from.", r.items()),
		policy.Optional("since", "The column of the records by which each run goes on, in place of range and items.", r.since()),
		policy.Optional("paginate", "How an answer leads to the next page.", r.paginate()),
		policy.Optional("records", "The path of the records in the body.", r.jsonPath(&j.Records)),
		policy.Optional("id", "What identifies a record: a path, a text with placeholders, several of them, hash or place.", policy.Listed(r.d, &j.ID, "is empty; leave it out, and the hash of a record identifies it", r.jsonPath)),
		policy.Optional("columns", "Parts of a record with a column of their own.", policy.NewValue(r.columns, func() policy.Node {
			return policy.EitherNode(policy.MapNode(columnName.String(), r.column(&Column{}).Schema()), policy.ListNode(policy.FilledNode(), 0))
		})),
		policy.Optional("workers", "Requests at one time.", r.d.Number(&j.Workers, 1, mostWorkers)),
		policy.Optional("tries", "How often a page is asked for before its unit fails.", r.d.Number(&j.Tries, 1, 1000)),
		policy.Optional("errors", "What becomes of the unit of some answers; the first that matches counts.", policy.Sequence(r.d, &j.Errors, "", func(e *Rule) policy.Value {
			return policy.Object(r.d, []policy.Field{
				policy.Optional("status", "The status of the answer.", r.d.Number(&e.Status, 200, 599)),
				policy.Optional("path", "The path of a value in the body.", r.jsonPath(&e.Path)),
				policy.Optional("is", "That value, any but null, false and an empty text if it is left out.", r.plain(&e.Is)),
				policy.Required("then", "retry the page, skip the rest of the unit, reject the answer, or stop the job.", policy.Word(r.d, &e.Then, "retry", "skip", "reject", "stop")),
			})
		})),
		policy.Optional("output", "A SQLite file, or postgres://USER@HOST/DATABASE.", r.output(&j.Output)),
		policy.Optional("notify", "What is told how the job has ended.", policy.Object(r.d, []policy.Field{
			policy.Optional("url", "A URL that a JSON document is posted to.", r.d.Secret(&j.Notify.URL)),
			policy.Optional("command", "A program and its arguments; the document is its standard input.", policy.Listed(r.d, &j.Notify.Command, "is empty", r.plain)),
			policy.Optional("when", "failed, or always.", r.choice(&j.Notify.Always, "failed", "always")),
		})),
		policy.Optional("every", "The interval of a collection, such as 30s.", policy.Parsed(r.d, &j.Collect.Every, policy.DurationWithin(time.Second, math.MaxInt64), policy.DurationNode)),
		policy.Optional("batch", "Several items in one request.", r.batch()),
		policy.Optional("moves", "Whether records move between units by themselves, so that nothing is told of one that takes the place of another of an earlier run.", r.choice(&j.Moves, "off", "on")),
		policy.Optional("replace", "What the records of a unit that is fetched again take the place of: those with the same id, or all that the unit had.", r.choice(&j.Replace, "id", "unit")),
		policy.Optional("store", "Whether a collection stores what has changed, or all.", r.choice(&j.Collect.All, "changes", "all")),
		policy.Optional("keep", "How long records are kept, such as 30d.", policy.Parsed(r.d, &j.Collect.Keep, policy.ParseDuration, policy.DurationNode)),
		policy.Optional("memory", "How much is in memory of answers that are not written yet, such as 64MiB.", policy.Parsed(r.d, &j.Memory, policy.ParseSize, policy.SizeNode)),
		policy.Optional("priority", "The priorities of some items.", policy.Sequence(r.d, &j.Collect.Priority, "", func(p *Priority) policy.Value {
			p.Priority = policy.DefaultPriority
			return policy.Object(r.d, []policy.Field{
				policy.Required("items", "A pattern of items with *.", r.d.Label(&p.Items)),
				policy.Required("priority", "0, the most urgent, to 7.", r.d.Number(&p.Priority, 0, policy.LowestPriority)),
			})
		})),
	}
}

// choice reads one of two words; set tells whether it is the second.
func (r *reader) choice(set *bool, words ...string) policy.Value {
	return policy.Parsed(r.d, set, func(s string) (bool, error) {
		word, err := policy.ParseWord(s, words...)
		return word == words[1], err
	}, func() policy.Node { return policy.WordNode(words...) })
}

// check refuses what does not fit together.
func (r *reader) check(set map[string]*yaml.Node) {
	j := r.job
	if j.Collect.Every > 0 && set["workers"] == nil {
		j.Workers = collectionWorkers
	}
	others, are := []string{"range", "since", "paginate", "errors", "replace"}, "backfills, which have no every"
	if j.Collect.Every == 0 {
		others, are = []string{"batch", "store", "keep", "priority"}, "collections, which have every"
	}
	for _, key := range others {
		if n := set[key]; n != nil {
			r.d.Failf(n, key, "is for %s", are)
		}
	}
	to, err := url.Parse(j.Notify.URL.Reveal())
	for _, fault := range []struct {
		is        bool
		at        string
		path, why string
	}{
		{set["range"] != nil, "since", "since", "does not go with range"},
		{j.Replace && set["since"] != nil, "replace", "replace", "is unit, and with since each run has units of its own"},
		{j.Since != nil && !slices.ContainsFunc(j.Columns, func(c Column) bool { return c.Name == j.Since.Column }), "since", "since.column", "names no column of columns"},
		{j.Since != nil && j.Since.Lag.N > 0 && (j.Since.Lag.Unit == "") != j.Since.IsNumber(), "since", "since.lag", "is a number where from is one, and else a time such as 1h"},
		{j.Placed && !j.Replace, "id", "id", "is place, which needs replace: unit, as a place has another record the next time"},
		{j.Notify.URL.Empty() == (len(j.Notify.Command) == 0), "notify", "notify", "needs url or command"},
		{!j.Notify.URL.Empty() && (err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https"), "notify", "notify.url", "is no URL with http:// or https:// and a host"},
		{j.Paginate.In == InBody && j.Request.Body == "", "paginate", "paginate.in", "is body, and the request has none"},
		{slices.ContainsFunc(j.Errors, func(e Rule) bool { return e.Status == 0 && e.Path == "" }), "errors", "errors", "has one that needs status or path"},
		{set["items"] == nil, "batch", "batch", "needs items"},
	} {
		if n := set[fault.at]; fault.is && n != nil {
			r.d.Failf(n, fault.path, "%s", fault.why)
		}
	}
	n := set["request"]
	if n == nil {
		return
	}
	used, texts := map[string]bool{}, j.texts()
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		for _, found := range placeholder.FindAllStringSubmatch(texts[key], -1) {
			name, value, _ := strings.Cut(found[1], ".")
			of := cmp.Or(map[string]string{"item": "items", "since": "since"}[name], "range")
			used[of] = used[of] || strings.HasPrefix(key, "request")
			switch {
			case set[of] == nil:
				r.d.Failf(n, key, "has {%s}, and the job has no %s", found[1], of)
			case value != "" && j.Items != nil && j.Items.Column == "" && j.Items.Query == "" && (j.Items.Numbers.Step == 0 || value != "last"):
				r.d.Failf(n, key, "has {%s}, and these items have no such value: take them from a CSV file or another job", found[1])
			case set["batch"] != nil && name == "item" && !strings.HasPrefix(key, "request"):
				r.d.Failf(n, key, "has {%s}, and a request of a batch has several items", found[1])
			}
		}
	}
	for of, names := range map[string]string{"range": "{date}, {from}, {to}", "items": "{item}", "since": "{since}"} {
		if set[of] != nil && !used[of] && set["batch"] == nil {
			r.d.Failf(n, "request", "has none of the placeholders %s, so all units would ask for the same", names)
		}
	}
}

// filled reads a text that is not empty.
func (r *reader) filled(to *string) policy.Value {
	return policy.Parsed(r.d, to, func(s string) (_ string, err error) {
		if s == "" {
			err = errors.New("is empty")
		}
		return s, err
	}, policy.FilledNode)
}

// jsonPath reads a path in JSON; its syntax is checked where it is used.
func (r *reader) jsonPath(to *string) policy.Value {
	return policy.Parsed(r.d, to, func(s string) (string, error) {
		if strings.TrimSpace(s) == "" {
			return "", errors.New("is empty; write a path such as data.items, or leave it out")
		}
		return s, checkPlaceholders(s)
	}, policy.FilledNode)
}
