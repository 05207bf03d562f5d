package jobfile

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/policy"
)

// pageKeys are the keys of paginate that a style has besides style and max_pages, and before the
// bar those that it needs.
var pageKeys = map[string]string{
	"none":      "",
	AutoPages:   "| size size_param",
	OffsetPages: "| param size size_param first more total",
	PagePages:   "| param size size_param first more total",
	CursorPages: "param | next header size size_param more total",
	LinkPages:   "| size size_param",
	NextPages:   "next | size size_param more total",
}

// pageStyles are all styles.
var pageStyles = []string{"none", AutoPages, OffsetPages, PagePages, CursorPages, LinkPages, NextPages}

// pageReading holds the values of paginate while they are read.
type pageReading struct {
	style string
	first int // -1 if it is not written
}

// pageFields are the keys of paginate.
func (r *reader) pageFields(reading *pageReading) []policy.Field {
	to := &r.job.Paginate
	return []policy.Field{
		policy.Optional("style", "How pages follow each other.", r.d.Word(&reading.style, pageStyles...)),
		policy.Optional("param", "The parameter of the query with the offset, the page or the cursor.", r.d.Label(&to.Param)),
		policy.Optional("size", "Records of a full page.", r.d.Number(&to.Size, 1, 1_000_000)),
		policy.Optional("size_param", "The parameter of the query with the size.", r.d.Label(&to.SizeParam)),
		policy.Optional("first", "The first page or offset.", r.d.Number(&reading.first, 0, 1_000_000)),
		policy.Optional("next", "The path of the cursor or of the URL in the body.", r.jsonPath(&to.Next)),
		policy.Optional("header", "The header that has the cursor.", r.d.Label(&to.Header)),
		policy.Optional("more", "The path of a true or false in the body.", r.jsonPath(&to.More)),
		policy.Optional("total", "The path of the number of all records.", r.jsonPath(&to.Total)),
		policy.Optional("max_pages", "How many pages a unit has at most.", r.d.Number(&to.MaxPages, 1, 1_000_000_000)),
	}
}

// paginate reads how pages follow each other.
func (r *reader) paginate(n *yaml.Node, path string) {
	to := &r.job.Paginate
	reading := pageReading{first: -1}
	if policy.IsScalar(n) {
		r.d.Word(&reading.style, pageStyles...).Read(n, path)
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	}
	set := r.d.Mapping(n, path, r.pageFields(&reading)...)
	style, first := reading.style, reading.first
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
	for _, key := range []string{"param", "size", "size_param", "first", "next", "header", "more", "total"} {
		if set[key] != nil && !slices.Contains(strings.Fields(needed+allowed), key) {
			r.d.Failf(set[key], path+"."+key, "does not go with style %s", style)
		}
	}
	if style == CursorPages && (set["next"] == nil) == (set["header"] == nil) {
		r.d.Failf(n, path, "needs next, the path of the cursor in the body, or header, the name of the header that has it")
	}
	to.Style = style
	switch style {
	case "none":
		to.Style = NoPages
	case OffsetPages:
		to.Param, to.First = orElse(to.Param, "offset"), max(first, 0)
	case PagePages:
		to.Param, to.First = orElse(to.Param, "page"), 1
		if first >= 0 {
			to.First = first
		}
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// id reads what identifies a record: a path, several paths, or "hash".
func (r *reader) id(n *yaml.Node, path string) {
	r.d.List(n, path, func(_ int, n *yaml.Node, path string) {
		chosen := ""
		r.jsonPath(&chosen).Read(n, path)
		r.job.ID = append(r.job.ID, chosen)
	})
	if policy.IsEmptyList(n) {
		r.d.Failf(n, path, "is empty; leave it out, and the hash of a record identifies it")
	}
	if slices.Equal(r.job.ID, []string{"hash"}) {
		r.job.ID = nil
	}
}

var columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// columns reads the columns of the table of records: names with paths, or paths alone.
func (r *reader) columns(n *yaml.Node, path string) {
	seen := map[string]bool{"id": true, "unit": true, "fetched_at": true, "body": true}
	add := func(n *yaml.Node, path string, c Column) {
		switch {
		case !columnName.MatchString(c.Name):
			r.d.Failf(n, path, "%s is no name of a column: a letter or _, then letters, digits and _", policy.Quote(c.Name))
		case seen[strings.ToLower(c.Name)]:
			r.d.Failf(n, path, "%s is a column of every table of records, or is there twice; choose another name", policy.Quote(c.Name))
		}
		seen[strings.ToLower(c.Name)] = true
		r.job.Columns = append(r.job.Columns, c)
	}
	if policy.IsMapping(n) {
		r.d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
			c := Column{Name: name}
			r.jsonPath(&c.Path).Read(value, path)
			add(key, path, c)
		})
		return
	}
	r.d.List(n, path, func(_ int, n *yaml.Node, path string) {
		c := Column{}
		r.jsonPath(&c.Path).Read(n, path)
		c.Name = c.Path[strings.LastIndex(c.Path, ".")+1:]
		add(n, path, c)
	})
}
