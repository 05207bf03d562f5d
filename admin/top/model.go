package top

import (
	"cmp"
	"slices"
	"strings"
)

// model is the state of the table: the last sample, rates, and the choices of the user.
type model struct {
	address string
	now     sample
	past    history
	failed  error // the abide does not answer; now is of the last time that it did

	about    subject // what the user looks at
	sortBy   int     // in columns
	reverse  bool
	filter   string
	selected string // a site; "": the first
	note     string // what became of the last key, until the next
}

// newModel shows sites with the most requests first.
func newModel(address string) *model {
	return &model{address: address, sortBy: slices.IndexFunc(columns, func(c column) bool { return c.title == "REQ/S" })}
}

// take has the model show a sample.
func (m *model) take(s sample) {
	if !s.process.Started.Equal(m.now.process.Started) {
		m.past = nil // another process counts from zero
	}
	m.now, m.past, m.failed = s, m.past.add(countsOf(s)), nil
}

// rows are the sites that the filter lets through, in their order.
func (m *model) rows() []row {
	var rows []row
	for _, one := range m.now.sites.Sites {
		if strings.Contains(strings.ToLower(one.Name), strings.ToLower(m.filter)) {
			rows = append(rows, rowOf(one, m.past.of(one.Name)))
		}
	}
	compare := columns[m.sortBy].compare
	slices.SortFunc(rows, func(a, b row) int {
		order := compare(a, b)
		if m.reverse {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.site, b.site))
	})
	return rows
}

// choose sorts by a column.
func (m *model) choose(column int) { m.sortBy, m.reverse = column%len(columns), false }

// place returns the index of the selected site in rows: the first if the selected one is not there, -1
// without rows.
func (m *model) place(rows []row) int {
	if len(rows) == 0 {
		return -1
	}
	return max(slices.IndexFunc(rows, func(r row) bool { return r.site == m.selected }), 0)
}
