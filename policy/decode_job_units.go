package policy

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// dates reads the range of a job.
func (r *jobReader) dates(n *yaml.Node, path string) {
	reading := &rangeReading{JobRange: JobRange{Step: JobStep{1, "d"}, Zone: time.UTC}}
	set := r.mapping(n, path, r.rangeFields(reading)...)
	to := reading.JobRange
	r.job.Range = &to
	if set["from"] == nil || set["to"] == nil || to.Zone == nil {
		return
	}
	var err error
	if to.From, err = parseJobDate(reading.from, to.Zone); err != nil {
		r.fail(set["from"], path+".from", err)
		return
	}
	if to.To, err = parseJobDate(reading.to, to.Zone); err != nil {
		r.fail(set["to"], path+".to", err)
		return
	}
	to.To = to.Step.lastOf(to.To, reading.to)
	if to.To.Before(to.From) {
		r.failf(set["to"], path+".to", "is before from")
	}
	r.job.Range = &to
}

// rangeReading is a range that is being read.
type rangeReading struct {
	JobRange
	from, to string // as they are written
}

// rangeFields are the keys of the range of a job.
func (r *jobReader) rangeFields(to *rangeReading) []field {
	return []field{
		required("from", "The first date: 2025-01-31, 2025-01 or 2025-01-31T15:00.", r.plain(&to.from)),
		required("to", "The last date, which belongs to the range.", r.plain(&to.to)),
		optional("step", "The length of a unit: 1h, 1d, 1w, 1mo or 1y.", parsed(r.decoder, &to.Step, parseJobStep, func() node {
			return patternNode(`^\s*[0-9]{1,6}\s*(?:h|d|w|mo|y)\s*$`)
		})),
		optional("timezone", "The time zone of the dates, such as Europe/Berlin.", parsed(r.decoder, &to.Zone, parseJobZone, timezoneNode)),
	}
}

// plain reads a single value as it is.
func (r *jobReader) plain(to *string) value {
	return parsed(r.decoder, to, func(s string) (string, error) { return s, nil }, textNode)
}

var jobStep = regexp.MustCompile(`^(\d{1,6})\s*(h|d|w|mo|y)$`)

func parseJobStep(s string) (JobStep, error) {
	found := jobStep.FindStringSubmatch(strings.TrimSpace(s))
	if found == nil {
		return JobStep{}, fmt.Errorf("%s is no step; write 1h, 1d, 1w, 1mo or 1y", quote(s))
	}
	n, _ := strconv.Atoi(found[1]) // six digits are a number
	if n == 0 {
		return JobStep{}, fmt.Errorf("%s is no time at all", quote(s))
	}
	switch found[2] {
	case "w":
		return JobStep{7 * n, "d"}, nil
	case "y":
		return JobStep{12 * n, "mo"}, nil
	}
	return JobStep{n, found[2]}, nil
}

// lastOf is the last moment of a day or month that was written as the end of a range of
// shorter steps: all of it belongs to the range.
func (s JobStep) lastOf(at time.Time, written string) time.Time {
	switch {
	case len(written) == len("2006-01") && s.Unit != "mo":
		return at.AddDate(0, 1, 0).Add(-1)
	case len(written) == len(time.DateOnly) && s.Unit == "h":
		return at.AddDate(0, 0, 1).Add(-1)
	}
	return at
}

func parseJobZone(s string) (*time.Location, error) {
	if strings.EqualFold(s, "local") {
		return nil, errors.New("is local, which differs between machines; write a zone such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" {
		return nil, fmt.Errorf("%s is no time zone; write one such as Europe/Berlin or UTC", quote(s))
	}
	return zone, nil
}

// parseJobDate reads a day or a time of day.
func parseJobDate(s string, zone *time.Location) (time.Time, error) {
	for _, form := range []string{time.DateOnly, "2006-01", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(form, s, zone); err == nil {
			return at.In(zone), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is no date; write 2025-01-31 or 2025-01-31T15:00", quote(s))
}

func parseEvery(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err == nil && d < time.Second {
		err = fmt.Errorf("%s is shorter than a second", quote(s))
	}
	return d, err
}

// items reads the items of a job: a list, the name of a file, or where they come from.
func (r *jobReader) items(n *yaml.Node, path string) {
	to := &JobItems{}
	r.job.Items = to
	switch {
	case isMapping(n):
		r.itemSource(n, path, to)
	case isScalar(n):
		r.file(&to.File).read(n, path)
	case isEmpty(n):
		r.failf(n, path, "is empty")
	default:
		r.sequence(n, path, func(_ int, n *yaml.Node, path string) {
			if text, ok := r.scalar(n, path, plainText); ok && text == "" {
				r.failf(n, path, "is empty")
			} else if ok {
				to.List = append(to.List, text)
			}
		})
	}
}

func (r *jobReader) itemSource(n *yaml.Node, path string, to *JobItems) {
	csv := ""
	set := r.mapping(n, path, r.itemFields(to, &csv)...)
	sources := 0
	for _, key := range []string{"file", "csv", "job"} {
		if set[key] != nil {
			sources++
		}
	}
	switch {
	case sources != 1:
		r.failf(n, path, "needs one of file, csv and job")
	case set["csv"] != nil:
		to.File = csv
		if set["column"] == nil {
			r.failf(n, path, "needs column: the name of the column with the items")
		}
		r.only(set, path, "csv", "name", "query")
	case set["file"] != nil:
		r.only(set, path, "file", "name", "column", "query")
	case set["query"] == nil && set["column"] == nil:
		r.failf(n, path, "needs column or query: what of the other job's records is the item")
	case set["query"] != nil && set["column"] != nil:
		r.failf(set["query"], path+".query", "does not go with column")
	}
}

// itemFields are the keys of items.
func (r *jobReader) itemFields(to *JobItems, csv *string) []field {
	return []field{
		optional("file", "A file with a line for each item.", r.file(&to.File)),
		optional("csv", "A CSV file with a header row.", r.file(csv)),
		optional("job", "The output of another job.", r.outputValue(&to.Job)),
		optional("name", "The name of the other job, if its output has several.", r.label(&to.Name)),
		optional("column", "The column with the items.", r.label(&to.Column)),
		optional("query", "A SELECT with one column.", r.plain(&to.Query)),
	}
}

// itemsNode is the schema of items.
func (r *jobReader) itemsNode() node {
	return eitherNode(filledNode(), sequenceNode(filledNode(), 1), objectNode(r.itemFields(&JobItems{}, new(string))))
}

// only refuses keys that do not go with another.
func (r *jobReader) only(set map[string]*yaml.Node, path, with string, names ...string) {
	for _, name := range names {
		if n := set[name]; n != nil {
			r.failf(n, path+"."+name, "does not go with %s", with)
		}
	}
}

// output reads where records are: a file, or the URL of a PostgreSQL.
func (r *jobReader) output(n *yaml.Node, path string, to *JobOutput) {
	kind := secretText
	if strings.HasPrefix(n.Value, "postgres") {
		kind = secretURL
	}
	text, ok := r.scalar(n, path, kind)
	if !ok {
		return
	}
	scheme, _, found := strings.Cut(text, "://")
	switch {
	case scheme == "postgres" && found, scheme == "postgresql" && found:
		to.URL = NewSecret(text)
	case found:
		r.failf(n, path, "has a scheme that is not postgres; write a file name, or postgres://USER@HOST/DATABASE")
	default:
		in := input{items: []string{text}, base: r.base, home: r.home}
		file, err := in.path()
		if err == nil && filepath.Base(file) == "abide.db" {
			err = errors.New("is abide.db, which has the state of abide; name a file of its own")
		}
		if err != nil {
			r.fail(n, path, err)
		}
		to.File = file
	}
}

// outputValue is where records are.
func (r *jobReader) outputValue(to *JobOutput) value {
	return value{func(n *yaml.Node, path string) { r.output(n, path, to) }, secretNode}
}

// batch reads how several items go into one request.
func (r *jobReader) batch(n *yaml.Node, path string) {
	r.job.Collect.Batch = JobBatch{Size: 100, Join: ","}
	r.mapping(n, path, r.batchFields()...)
}

// batchFields are the keys of batch.
func (r *jobReader) batchFields() []field {
	to := &r.job.Collect.Batch
	return []field{
		required("param", "The parameter of the query with the items.", r.label(&to.Param)),
		optional("size", "Items of a request, 100 if it is left out.", r.number(&to.Size, 2, 10_000)),
		optional("join", "What stands between items, a comma if it is left out.", r.plain(&to.Join)),
	}
}

// priorities reads the priorities of targets.
func (r *jobReader) priorities(n *yaml.Node, path string) {
	r.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		p := JobPriority{Priority: defaultPriority}
		r.mapping(n, path, r.priorityFields(&p)...)
		r.job.Collect.Priority = append(r.job.Collect.Priority, p)
	})
}

// priorityFields are the keys of a priority of items.
func (r *jobReader) priorityFields(to *JobPriority) []field {
	return []field{
		required("items", "A pattern of items with *.", r.label(&to.Items)),
		required("priority", "0, the most urgent, to 7.", r.number(&to.Priority, 0, lowestPriority)),
	}
}
