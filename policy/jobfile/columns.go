package jobfile

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/policy"
)

// Column is a column of the table of records: a part of the record, or a text about the unit.
type Column struct {
	Name string
	Path string // or a text with placeholders
	Type string // one of ColumnTypes; "": as the value is, a text in PostgreSQL
}

// ColumnTypes are the types that a column may have.
var ColumnTypes = []string{"text", "integer", "number", "boolean", "time", "json"}

// OfParent tells whether a path leads from what the list of a record stands in, as ^.id does.
func OfParent(path string) bool { return strings.HasPrefix(path, "^") }

// OfRecord tells whether the column is a part of the record itself.
func (c Column) OfRecord() bool { return c.Path != "" && !HasPlaceholder(c.Path) && !OfParent(c.Path) }

// MarshalYAML writes a column that ColumnOf has named.
func (c Column) MarshalYAML() (any, error) { return c.Path, nil }

// ColumnOf returns the column of a path that has no name of its own. ok is false if its last part
// cannot be the name of a column.
func ColumnOf(path string) (c Column, ok bool) {
	c = Column{Name: path[strings.LastIndex(path, ".")+1:], Path: path}
	return c, columnName.MatchString(c.Name) && !slices.Contains(ownColumns, strings.ToLower(c.Name))
}

var columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// ownColumns are the columns of every table of records.
var ownColumns = []string{"id", "unit", "fetched_at", "body"}

// columns reads the columns of the table of records: names with paths, or paths alone.
func (r *reader) columns(n *yaml.Node, path string) {
	seen := slices.Clone(ownColumns)
	add := func(n *yaml.Node, path string, c Column) {
		switch {
		case !columnName.MatchString(c.Name):
			r.d.Failf(n, path, "%s is no name of a column: a letter or _, then letters, digits and _", policy.Quote(c.Name))
		case slices.Contains(seen, strings.ToLower(c.Name)):
			r.d.Failf(n, path, "%s is a column of every table of records, or is there twice; write another name, as in columns: {NAME: %s}", policy.Quote(c.Name), c.Path)
		}
		seen = append(seen, strings.ToLower(c.Name))
		r.job.Columns = append(r.job.Columns, c)
	}
	if policy.IsMapping(n) {
		r.d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
			c := Column{Name: name}
			r.column(&c).Read(value, path)
			add(key, path, c)
		})
		return
	}
	r.d.List(n, path, func(_ int, n *yaml.Node, path string) {
		text := ""
		r.jsonPath(&text).Read(n, path)
		c, _ := ColumnOf(text)
		add(n, path, c)
	})
}

// column reads the path of a column, or its path and type.
func (r *reader) column(c *Column) policy.Value {
	path := r.jsonPath(&c.Path)
	return policy.Either(r.d, path, func(n *yaml.Node, path string, _ map[string]*yaml.Node) {
		if c.Type != "" && HasPlaceholder(c.Path) {
			r.d.Failf(n, path, "has a type, and is a text with placeholders")
		}
	},
		policy.Required("path", "The path of the value in the record.", path),
		policy.Required("type", "text, integer, number, boolean, time or json.", policy.Word(r.d, &c.Type, ColumnTypes...)),
	)
}
