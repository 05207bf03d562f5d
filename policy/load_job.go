package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Defaults of a job.
const (
	jobWorkers = 4
	jobTries   = 10
	jobMemory  = 64 * mib
	// collectWorkers is the default for collections, whose targets may be slow to answer.
	collectWorkers = 256
	// mostJobWorkers bounds the requests of a job at one time.
	mostJobWorkers = 1000
	// mostJobPages is the default of paginate.max_pages.
	mostJobPages = 1_000_000
)

// LoadJob reads and checks a job file. The error is a Faults, with every fault at once.
func LoadJob(src Source) (*Job, error) {
	l := newLoading(src)
	path, err := filepath.Abs(src.Path)
	if err != nil {
		path = src.Path
	}
	l.base = filepath.Dir(path)
	j := &Job{
		File: path, Request: JobRequest{Method: "GET", Priority: defaultPriority}, Workers: jobWorkers, Tries: jobTries,
		Paginate: Pagination{MaxPages: mostJobPages}, Collect: Collection{Memory: jobMemory},
	}
	root, fault := parseDocument(src.Data)
	switch {
	case fault != nil:
		fault.Source = l.name
		l.fail(*fault)
	case root == nil:
		l.fail(Fault{Source: l.name, Line: 1, Text: "is empty; docs/jobs.md begins with a job"})
	default:
		r := &jobReader{decoder: &decoder{loading: l, source: l.name}, job: j}
		r.read(root)
	}
	if len(l.faults) > 0 {
		return nil, l.sorted()
	}
	if j.Output == (JobOutput{}) {
		j.Output.File = filepath.Join(l.base, j.Name+".db")
	}
	return j, nil
}

// jobReader reads the document of a job file.
type jobReader struct {
	*decoder
	job *Job
}

var jobName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// read reads the whole document.
func (r *jobReader) read(root *yaml.Node) {
	j, idempotent := r.job, false
	set := r.mapping(root, "", r.fields(&idempotent)...)
	if !idempotent {
		j.Request.Idempotency = !slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, j.Request.Method)
	}
	r.check(root, set)
}

// fields are the keys of a job file. idempotent is set if the request says idempotency.
func (r *jobReader) fields(idempotent *bool) []field {
	j := r.job
	word := ""
	return []field{
		required("name", "Of the job and its table: letters, digits, - and _.", parsed(r.decoder, &j.Name, parseJobName, func() node { return patternNode(jobName.String()) })),
		required("request", "What is asked for each unit. {date}, {from}, {to} and {item} are replaced.", value{
			func(n *yaml.Node, path string) { *idempotent = r.request(n, path) },
			func() node { return eitherNode(jobURLNode(), objectNode(r.requestFields())) },
		}),
		optional("range", "The dates of the job. Each step is a unit.", value{r.dates, func() node { return objectNode(r.rangeFields(&rangeReading{})) }}),
		optional("items", "The items of the job, each of which is a unit: a file with a line for each, a list, or where they come from.", value{r.items, r.itemsNode}),
		optional("paginate", "How an answer leads to the next page.", value{r.paginate, func() node {
			return eitherNode(wordNode(pageStyles...), objectNode(r.pageFields(&pageReading{})))
		}}),
		optional("records", "The path of the records in the body.", r.jsonPath(&j.Records)),
		optional("id", "What identifies a record: a path, several paths, or hash.", value{r.id, func() node { return eitherNode(filledNode(), sequenceNode(filledNode(), 1)) }}),
		optional("columns", "Parts of a record with a column of their own.", value{r.columns, func() node {
			return eitherNode(mapNode(columnName.String(), filledNode()), listNode(filledNode()))
		}}),
		optional("workers", "Requests at one time.", r.number(&j.Workers, 1, mostJobWorkers)),
		optional("tries", "How often a page is asked for before its unit fails.", r.number(&j.Tries, 1, 1000)),
		optional("output", "A SQLite file, or postgres://USER@HOST/DATABASE.", r.outputValue(&j.Output)),
		optional("every", "The interval of a collection, such as 30s.", parsed(r.decoder, &j.Collect.Every, parseEvery, durationNode)),
		optional("batch", "Several items in one request.", value{r.batch, func() node { return objectNode(r.batchFields()) }}),
		optional("store", "Whether a collection stores what has changed, or all.", value{func(n *yaml.Node, path string) {
			r.word(&word, "changes", "all").read(n, path)
			j.Collect.All = word == "all"
		}, func() node { return wordNode("changes", "all") }}),
		optional("keep", "How long records are kept, such as 30d.", parsed(r.decoder, &j.Collect.Keep, ParseDuration, durationNode)),
		optional("memory", "How much is kept that is not written yet, such as 64MiB.", parsed(r.decoder, &j.Collect.Memory, ParseSize, sizeNode)),
		optional("priority", "The priorities of some items.", value{r.priorities, func() node {
			return sequenceNode(objectNode(r.priorityFields(&JobPriority{})), 0)
		}}),
	}
}

// check refuses what does not fit together.
func (r *jobReader) check(root *yaml.Node, set map[string]*yaml.Node) {
	j := r.job
	if set["range"] != nil && set["items"] != nil {
		r.failf(set["items"], "items", "does not go with range: a job has one of both")
	}
	if j.Collect.Every > 0 && set["workers"] == nil {
		j.Workers = collectWorkers
	}
	if j.Collect.Every == 0 {
		for _, key := range []string{"batch", "store", "keep", "memory", "priority"} {
			if n := set[key]; n != nil {
				r.failf(n, key, "is for collections, which have every")
			}
		}
	} else {
		for _, key := range []string{"range", "paginate"} {
			if n := set[key]; n != nil {
				r.failf(n, key, "is for backfills, which have no every")
			}
		}
	}
	if set["batch"] != nil && set["items"] == nil {
		r.failf(set["batch"], "batch", "needs items")
	}
	known := []string{}
	switch {
	case set["range"] != nil:
		known = []string{"date", "from", "to"}
	case set["items"] != nil:
		known = []string{"item"}
	}
	n := set["request"]
	if n == nil {
		return
	}
	texts := map[string]string{"request.url": j.Request.URL, "request.body": j.Request.Body}
	for _, h := range j.Request.Headers {
		texts["request.headers."+h.Name] = h.Value.Reveal()
	}
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	used := false
	for _, key := range keys {
		for _, name := range Placeholders(texts[key]) {
			used = true
			switch {
			case slices.Contains(known, name):
			case name == "item":
				r.failf(n, key, "has {item}, and the job has no items")
			default:
				r.failf(n, key, "has {%s}, and the job has no range", name)
			}
		}
	}
	if len(known) > 0 && !used && set["batch"] == nil {
		r.failf(n, "request", "has none of the placeholders {%s}, so all units would ask for the same", strings.Join(known, "}, {"))
	}
}

func parseJobName(s string) (string, error) {
	if !jobName.MatchString(s) {
		return "", fmt.Errorf("%s is no name of a job: a letter, then letters, digits, - and _, 40 characters at most", quote(s))
	}
	return s, nil
}

// placeholder finds {date}, {date:2006/01} and the like.
var placeholder = regexp.MustCompile(`\{(date|from|to|item)(:[^{}]*)?\}`)

// Placeholders are the names of the placeholders in a text.
func Placeholders(text string) (names []string) {
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// ReplacePlaceholders replaces each placeholder by what value returns for its name and form, as
// "date" and "2006/01/02"; the form is "" where there is none.
func ReplacePlaceholders(text string, value func(name, form string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name, form, _ := strings.Cut(found[1:len(found)-1], ":")
		return value(name, form)
	})
}

// jsonPath reads a path in JSON; its syntax is checked where it is used.
func (r *jobReader) jsonPath(to *string) value {
	return parsed(r.decoder, to, func(s string) (string, error) {
		if strings.TrimSpace(s) == "" {
			return "", errors.New("is empty; write a path such as data.items, or leave it out")
		}
		return s, nil
	}, filledNode)
}
