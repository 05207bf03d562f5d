package units

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// eachItem yields the items of a job, or the steps of its range, or each item with each step, until yield returns false.
func eachItem(ctx context.Context, job *jobfile.Job, yield func(string, ...string) bool) error {
	items, each := job.Items, yield
	if r := job.Range; r != nil {
		each = func(item string, values ...string) bool {
			for at := range starts(r) {
				key := keyOf(r, at)
				if items != nil {
					key = item + stepMark + key
				}
				if !yield(key, values...) {
					return false
				}
			}
			return true
		}
	}
	switch {
	case items == nil:
		each(single)
	case len(items.List) > 0:
		slices.Values(items.List)(func(item string) bool { return each(item) })
	case items.Numbers.Step > 0:
		n := items.Numbers
		for first := n.From; first <= n.To; first += n.Step {
			values := lists.Map(job.ItemValues(), func(string) string { return strconv.Itoa(min(first+n.Step-1, n.To)) }) // there is only last
			if !each(strconv.Itoa(first), values...) {
				break
			}
		}
	case items.File == "":
		return eachOfJob(ctx, items, job.ItemValues(), each)
	default:
		f, err := os.Open(items.File)
		if err != nil {
			return fmt.Errorf("the items cannot be read: %w", err)
		}
		defer f.Close()
		if items.Column != "" {
			err = column(f, append([]string{items.Column}, job.ItemValues()...), each)
		} else {
			err = lines(f, each)
		}
		if err != nil {
			return fmt.Errorf("the items in %s cannot be read: %w", items.File, err)
		}
	}
	return nil
}

// maxItem is the longest item in bytes.
const maxItem = 64 << 10

// lines are the lines of a file, without those that are empty or begin with #.
func lines(r io.Reader, yield func(string, ...string) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxItem)
	for s.Scan() {
		item := strings.TrimSpace(strings.TrimPrefix(s.Text(), "\ufeff"))
		if item != "" && !strings.HasPrefix(item, "#") && !yield(item) {
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", maxItem)
	}
	return s.Err()
}

// column yields the items in a column of a CSV file, with the values in other columns.
func column(r io.Reader, names []string, yield func(string, ...string) bool) error {
	from := records.NewCSV(r)
	from.FieldsPerRecord = -1
	head, err := from.Read()
	if err != nil {
		return errors.New("there is no line with the names of columns")
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	places := make([]int, len(names))
	for i, name := range names {
		if places[i] = slices.IndexFunc(head, func(item string) bool { return strings.TrimSpace(item) == name }); places[i] < 0 {
			return fmt.Errorf("there is no column %q; there are %s", name, strings.Join(head, ", "))
		}
	}
	for {
		row, err := from.Read()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case slices.Max(places) >= len(row):
			line, _ := from.FieldPos(0)
			return fmt.Errorf("line %d has no column %q", line, names[slices.IndexFunc(places, func(at int) bool { return at >= len(row) })])
		}
		values := lists.Map(places, func(at int) string { return strings.Clone(strings.TrimSpace(row[at])) })
		if values[0] != "" && !yield(values[0], values[1:]...) {
			return nil
		}
	}
}

// eachOfJob yields items from the records of another job, with their other values.
func eachOfJob(ctx context.Context, items *jobfile.Items, names []string, yield func(string, ...string) bool) error {
	o, err := output.Open(ctx, items.Job, output.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the items come from %s, which cannot be opened: %w", items.Job, err)
	}
	defer o.Close()
	query := items.Query
	if query == "" {
		if query, err = queryOf(ctx, o, items, names); err != nil {
			return err
		}
	}
	for row, err := range o.Query(ctx, query, names...) {
		if err != nil {
			return fmt.Errorf("the items from %s: %w", items.Job, err)
		}
		if row[0] != "" && !yield(row[0], row[1:]...) {
			return nil
		}
	}
	return nil
}

// queryOf is the query for a column of the records of a job, and for others.
func queryOf(ctx context.Context, o *output.Output, items *jobfile.Items, others []string) (string, error) {
	kept, err := o.Kept(ctx, items.Name)
	if err != nil {
		return "", fmt.Errorf("the items from %s (items.name is the job): %w", items.Job, err)
	}
	d := kept.Description()
	there := d.Names()
	names := append([]string{items.Column}, slices.DeleteFunc(slices.Clone(others), func(name string) bool { return name == items.Column })...)
	for _, name := range names {
		if !slices.Contains(there, name) {
			return "", fmt.Errorf("the job %s in %s has no column %q; there are %s", d.Name, items.Job, name, strings.Join(there, ", "))
		}
	}
	return "SELECT DISTINCT " + strings.Join(lists.Map(names, output.Quote), ", ") + " FROM " + output.Quote(d.Name) + " ORDER BY 1", nil
}
