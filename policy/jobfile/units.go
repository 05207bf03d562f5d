package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
)

// dates reads the range of a job.
func (r *reader) dates() policy.Value {
	to, first, last := &Range{Step: Step{1, "d"}, Zone: time.UTC}, "", ""
	return policy.Checked(r.d,
		func(_ *yaml.Node, path string, set map[string]*yaml.Node) {
			r.job.Range = to
			if set["from"] == nil || set["to"] == nil || to.Zone == nil {
				return
			}
			var err error
			if to.From, err = parseDate(first, to.Zone); err != nil {
				r.d.Fail(set["from"], path+".from", err)
				return
			}
			now := time.Now().In(to.Zone)
			today := map[bool]string{true: time.RFC3339, false: time.DateOnly}[to.Step.Clock() > 0] // steps of today that begin later are not asked for
			last = cmp.Or(map[string]string{
				"today": now.Format(today), "yesterday": now.AddDate(0, 0, -1).Format(time.DateOnly),
				"now": to.Step.Before(now).Format("2006-01-02T15:04:05"),
			}[last], last)
			if to.To, err = parseDate(last, to.Zone); err != nil {
				r.d.Fail(set["to"], path+".to", err)
				return
			}
			to.To = to.Step.lastOf(to.To, last)
			if to.To.Before(to.From) {
				r.d.Failf(set["to"], path+".to", "is before from")
			}
		},
		policy.Required("from", "The first date: 2025-01-31, 2025-01, 2025 or 2025-01-31T15:00.", r.plain(&first)),
		policy.Required("to", "The last date, which belongs to the range; or today, yesterday, or now for the last step that is over.", r.plain(&last)),
		policy.Optional("step", "The length of a unit: 15min, 1h, 1d, 1w, 1mo or 1y.", policy.Parsed(r.d, &to.Step, parseStep, stepNode)),
		policy.Optional("again", "The last part of the range, which each run fetches again, such as 3d.", policy.Parsed(r.d, &to.Again, parseStep, stepNode)),
		policy.Optional("timezone", "The time zone of the dates, such as Europe/Berlin.", policy.Parsed(r.d, &to.Zone, policy.ParseZone, policy.TimezoneNode)),
	)
}

// since reads from where each run goes on.
func (r *reader) since() policy.Value {
	to := &Since{}
	return policy.Checked(r.d,
		func(*yaml.Node, string, map[string]*yaml.Node) { r.job.Since = to },
		policy.Required("column", "A column of columns with times, such as 2025-01-31T10:00:00Z, or with numbers.", r.d.Label(&to.Column)),
		policy.Required("from", "What {since} is while there are no records: a time, or a number for numbers.", r.plain(&to.From)),
		policy.Optional("lag", "How much earlier than the greatest value {since} is, such as 1h; a number for numbers.", policy.Parsed(r.d, &to.Lag, parseLag, func() policy.Node { return policy.PatternNode(`^\s*[0-9]{1,9}\s*(?:min|h|d|w|mo|y)?\s*$`) })),
	)
}

// plain reads a single value as it is.
func (r *reader) plain(to *string) policy.Value {
	return policy.Parsed(r.d, to, func(s string) (string, error) { return s, nil }, policy.TextNode)
}

var stepForm = regexp.MustCompile(`^(\d{1,6})\s*(min|h|d|w|mo|y)$`)

func stepNode() policy.Node { return policy.PatternNode(`^\s*[0-9]{1,6}\s*(?:min|h|d|w|mo|y)\s*$`) }

func parseStep(s string) (Step, error) {
	found := stepForm.FindStringSubmatch(strings.TrimSpace(s))
	if found == nil {
		return Step{}, fmt.Errorf("%s is no step; write 15min, 1h, 1d, 1w, 1mo or 1y", policy.Quote(s))
	}
	n, _ := strconv.Atoi(found[1]) // six digits are a number
	if n == 0 {
		return Step{}, fmt.Errorf("%s is no time at all", policy.Quote(s))
	}
	switch found[2] {
	case "w":
		return Step{7 * n, "d"}, nil
	case "y":
		return Step{12 * n, "mo"}, nil
	}
	return Step{n, found[2]}, nil
}

// parseLag reads a step, or a number.
func parseLag(s string) (Step, error) {
	if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 30); err == nil {
		return Step{int(n), ""}, nil
	}
	return parseStep(s)
}

// lastOf is the last moment of a day or month that was written as the end of a range of
// shorter steps: all of it belongs to the range.
func (s Step) lastOf(at time.Time, written string) time.Time {
	switch {
	case len(written) == len("2006") && (s.Unit != "mo" || s.N%12 != 0):
		return at.AddDate(1, 0, 0).Add(-1)
	case len(written) == len("2006-01") && s.Unit != "mo":
		return at.AddDate(0, 1, 0).Add(-1)
	case len(written) == len(time.DateOnly) && s.Clock() > 0:
		return at.AddDate(0, 0, 1).Add(-1)
	}
	return at
}

// parseDate reads a day or a time of day.
func parseDate(s string, zone *time.Location) (time.Time, error) {
	for _, form := range []string{time.DateOnly, "2006", "2006-01", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(form, s, zone); err == nil {
			return at.In(zone), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is no date; write 2025-01-31 or 2025-01-31T15:00", policy.Quote(s))
}

// items reads the items of a job: a list, the name of a file, or where they come from.
func (r *reader) items() policy.Value {
	to, csv := &Items{}, ""
	file, list := r.d.File(&to.File), policy.Sequence(r.d, &to.List, "is empty", r.filled)
	alone := policy.NewValue(func(n *yaml.Node, path string) {
		if policy.IsScalar(n) {
			file.Read(n, path)
		} else {
			list.Read(n, path)
		}
	}, func() policy.Node { return policy.EitherNode(file.Schema(), list.Schema()) })
	return policy.Either(r.d, alone,
		func(n *yaml.Node, path string, set map[string]*yaml.Node) {
			if r.job.Items = to; set != nil {
				r.itemSource(n, path, set, csv)
			}
		},
		policy.Optional("file", "A file with a line for each item.", r.d.File(&to.File)),
		policy.Optional("csv", "A CSV file with a header row.", r.d.File(&csv)),
		policy.Optional("job", "The output of another job.", r.output(&to.Job)),
		policy.Optional("name", "The name of the other job, if its output has several.", r.d.Label(&to.Name)),
		policy.Optional("column", "The column with the items.", r.d.Label(&to.Column)),
		policy.Optional("from", "The first of the numbers up to to, 0 if it is left out.", r.d.Number(&to.Numbers.From, 0, 1e15)),
		policy.Optional("to", "The last number.", r.d.Number(&to.Numbers.To, 0, 1e15)),
		policy.Optional("step", "How many numbers a unit has, 1 if it is left out: {item} is the first, {item.last} the last.", r.d.Number(&to.Numbers.Step, 1, 1e15)),
		policy.Optional("query", "A SELECT whose first column has the items.", r.plain(&to.Query)),
	)
}

// itemKeys are the sources of items, each with the keys that go with it.
var itemKeys = map[string]string{"file": "", "csv": "column", "job": "name column query", "to": "from step"}

// itemSource looks at the keys of items, which name one source of them.
func (r *reader) itemSource(n *yaml.Node, path string, set map[string]*yaml.Node, csv string) {
	sources := lists.Only(slices.Sorted(maps.Keys(itemKeys)), func(key string) bool { return set[key] != nil })
	if len(sources) != 1 {
		r.d.Failf(n, path, "needs one of file, csv, job, and to: the last of numbers")
		return
	}
	to, source := r.job.Items, sources[0]
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if key != source && !slices.Contains(strings.Fields(itemKeys[source]), key) {
			r.d.Failf(set[key], path+"."+key, "does not go with %s", source)
		}
	}
	switch {
	case source == "to":
		if to.Numbers.Step = max(to.Numbers.Step, 1); to.Numbers.To < to.Numbers.From {
			r.d.Failf(set["to"], path+".to", "is less than from")
		}
	case source == "csv" && set["column"] == nil:
		r.d.Failf(n, path, "needs column: the name of the column with the items")
	case source == "csv":
		to.File = csv
	case source == "job" && (set["query"] == nil) == (set["column"] == nil):
		r.d.Failf(n, path, "needs column or query: what of the other job's records is the item")
	}
}

// output reads where records are: a file, or the URL of a PostgreSQL.
func (r *reader) output(to *Output) policy.Value {
	return policy.NewValue(func(n *yaml.Node, path string) {
		kind := policy.SecretText
		if strings.HasPrefix(n.Value, "postgres") {
			kind = policy.SecretURL
		}
		text, ok := r.d.Scalar(n, path, kind)
		scheme, _, found := strings.Cut(text, "://")
		switch {
		case !ok:
		case scheme == "postgres" && found, scheme == "postgresql" && found:
			to.URL = policy.NewSecret(text)
		case found:
			r.d.Failf(n, path, "has a scheme that is not postgres; write a file name, or postgres://USER@HOST/DATABASE")
		default:
			file, err := r.d.Path(text)
			if err == nil && filepath.Base(file) == "abide.db" {
				err = errors.New("is abide.db, which has the state of abide; name a file of its own")
			}
			if err != nil {
				r.d.Fail(n, path, err)
			}
			to.File = file
		}
	}, policy.SecretNode)
}

// batch reads how several items go into one request.
func (r *reader) batch() policy.Value {
	to := Batch{Size: 100, Join: ","}
	return policy.Checked(r.d,
		func(*yaml.Node, string, map[string]*yaml.Node) { r.job.Collect.Batch = to },
		policy.Required("param", "The parameter of the query with the items.", r.d.Label(&to.Param)),
		policy.Optional("size", "Items of a request, 100 if it is left out.", r.d.Number(&to.Size, 2, 10_000)),
		policy.Optional("join", "What stands between items, a comma if it is left out.", r.plain(&to.Join)),
	)
}
