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
	to := JobRange{Step: JobStep{1, "d"}, Zone: time.UTC}
	from, end := "", ""
	set := r.mapping(n, path,
		field{"from", r.plain(&from)},
		field{"to", r.plain(&end)},
		field{"step", parsed(r.decoder, &to.Step, parseJobStep)},
		field{"timezone", parsed(r.decoder, &to.Zone, parseJobZone)},
	)
	r.need(n, path, set, "from", "to")
	r.job.Range = &to
	if set["from"] == nil || set["to"] == nil || to.Zone == nil {
		return
	}
	var err error
	if to.From, err = parseJobDate(from, to.Zone); err != nil {
		r.fail(set["from"], path+".from", err)
		return
	}
	if to.To, err = parseJobDate(end, to.Zone); err != nil {
		r.fail(set["to"], path+".to", err)
		return
	}
	to.To = to.Step.lastOf(to.To, end)
	if to.To.Before(to.From) {
		r.failf(set["to"], path+".to", "is before from")
	}
	r.job.Range = &to
}

// plain reads a single value as it is.
func (r *jobReader) plain(to *string) reader {
	return parsed(r.decoder, to, func(s string) (string, error) { return s, nil })
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
		r.file(&to.File)(n, path)
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
	set := r.mapping(n, path,
		field{"file", r.file(&to.File)},
		field{"csv", r.file(&csv)},
		field{"job", func(n *yaml.Node, path string) { r.output(n, path, &to.Job) }},
		field{"name", r.label(&to.Name)},
		field{"column", r.label(&to.Column)},
		field{"query", r.plain(&to.Query)},
	)
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

// batch reads how several items go into one request.
func (r *jobReader) batch(n *yaml.Node, path string) {
	to := &r.job.Collect.Batch
	*to = JobBatch{Size: 100, Join: ","}
	set := r.mapping(n, path,
		field{"param", r.label(&to.Param)},
		field{"size", r.number(&to.Size, 2, 10_000)},
		field{"join", r.plain(&to.Join)},
	)
	r.need(n, path, set, "param")
}

// priorities reads the priorities of targets.
func (r *jobReader) priorities(n *yaml.Node, path string) {
	r.sequence(n, path, func(_ int, n *yaml.Node, path string) {
		p := JobPriority{Priority: defaultPriority}
		set := r.mapping(n, path, field{"items", r.label(&p.Items)}, field{"priority", r.number(&p.Priority, 0, lowestPriority)})
		r.need(n, path, set, "items", "priority")
		r.job.Collect.Priority = append(r.job.Collect.Priority, p)
	})
}
