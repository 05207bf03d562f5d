package records

import (
	"regexp"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// List is a list in an answer.
type List struct {
	Path     string
	Elements []Value
}

// Lists are the lists of objects in an answer, outside of other lists, and those that are empty; the longest
// one first. An answer that is a list itself is the only one, whatever it has. One that has an ID of its own has none: it is
// a record.
func Lists(answer Value) []List {
	if answer.kind() == '[' {
		return []List{{"", answer.elements()}}
	}
	var list []List
	if slices.ContainsFunc(answer.Leaves(mostPaths), idNames[0].MatchString) {
		return nil
	}
	answer.each(func(name, part Value) {
		text, _ := name.Text()
		switch found, _ := answer.Get(text); {
		case text == "" || len(found) == 0:
		case part.kind() == '[':
			if elements := part.elements(); len(elements) == 0 || elements[0].kind() == '{' {
				list = append(list, List{text, elements})
			}
		case part.kind() == '{':
			for _, inner := range Lists(part) {
				list = append(list, List{text + "." + inner.Path, inner.Elements})
			}
		}
	})
	slices.SortStableFunc(list, func(a, b List) int { return len(b.Elements) - len(a.Elements) })
	return list
}

// Elements are the parts of the list at a path of an answer, or what else is there. found tells whether there is anything.
func Elements(answer Value, path string) (list []Value, found bool) {
	v, has := answer.Get(path)
	return v.elements(), has
}

// elements are those of an array; another value but null is the only one.
func (v Value) elements() (list []Value) {
	switch {
	case v.Null():
	case v.kind() == '[':
		v.each(func(_, part Value) { list = append(list, part) })
	default:
		list = []Value{v}
	}
	return list
}

// idNames find usual names of what identifies a record. The first that finds one counts.
var idNames = []*regexp.Regexp{
	regexp.MustCompile(`(?i)^[@_]?id$`),
	regexp.MustCompile(`(?i)^[@_]?(uuid|guid|uid|key)$`),
	regexp.MustCompile(`^[^.]*([_-](?i:id|uuid|guid|key)|[a-z](Id|ID|Uuid|UUID|Key|No|Nr))$`),
	regexp.MustCompile(`(?i)^[^.]*(number|code|sku|slug|isbn|handle|login|symbol)$`),
	regexp.MustCompile(`(?i)^[^.]+\.[@_]?(id|uuid|guid)$`),
}

// changedNames find usual names of when a record changed last.
var changedNames = regexp.MustCompile(`(?i)(updated?|modified|changed)(_?(at|on|time|date|timestamp|utc))?$`)

// ProposeSince returns a column for when a record changed last, which each of some records has, and the value of the first;
// false: there is none.
func ProposeSince(list []Value) (c jobfile.Column, first Value, has bool) {
	for _, text := range list[0].Leaves(mostPaths) {
		hasNone := func(record Value) bool {
			part, _ := record.Get(text)
			when, _ := part.Text()
			_, err := timeOf(when, part.Number())
			return err != nil
		}
		if c, has = jobfile.ColumnOf(text); has && changedNames.MatchString(text) && !slices.ContainsFunc(list[:min(len(list), mostCompared)], hasNone) {
			first, _ = list[0].Get(text)
			return c, first, true
		}
	}
	return c, nil, false
}

// Bounds of what is looked at for a proposal: paths of a record, records, columns, and the characters of a value of one.
const mostPaths, mostCompared, mostColumns, mostInColumn = 200, 1000, 16, 100

// ProposeID returns the path of a usual name whose values are all there and differ; none: the hash of a record identifies it.
func ProposeID(list []Value) []string {
	list = list[:min(len(list), mostCompared)]
	paths := list[0].Leaves(mostPaths)
	for _, usual := range idNames {
		for _, text := range paths {
			if !usual.MatchString(text) {
				continue
			}
			seen := map[string]bool{}
			for _, record := range list {
				part, _ := record.Get(text)
				if id, ok := part.Text(); ok && id != "" {
					seen[id] = true
				}
			}
			if len(seen) == len(list) {
				return []string{text}
			}
		}
	}
	return nil
}

// ProposeColumns returns columns for the short values of the first records, besides the paths of the ID.
func ProposeColumns(list []Value, id []string) (columns []jobfile.Column) {
	for _, record := range list[:min(len(list), mostColumns)] {
		for _, text := range record.Leaves(mostPaths) {
			c, ok := jobfile.ColumnOf(text)
			part, has := record.Get(text)
			if !ok || !has || slices.Contains(id, text) || len(part) > mostInColumn || len(columns) == mostColumns ||
				slices.ContainsFunc(columns, func(has jobfile.Column) bool { return strings.EqualFold(has.Name, c.Name) }) {
				continue
			}
			columns = append(columns, c)
		}
	}
	return columns
}
