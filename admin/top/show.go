package top

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// show fills in everything from the model.
func (s *screen) show() {
	lines := s.model.header()
	for i, line := range lines {
		lines[i] = cut(line, s.width)
	}
	s.header.SetText(strings.Join(lines[:], "\n"))
	s.showFooter()
	switch about := s.model.about; {
	case about == (subject{}):
		s.showSites()
	case about != s.model.now.about:
		s.fill(list{}) // the sample is about something else
	case about.tokens:
		s.fit(s.model.tokenList())
	default:
		s.fit(s.model.holdList())
	}
}

func (s *screen) showFooter() { s.footer.SetText(cut(s.model.footer(), s.width)) }

// fit fills the table with a list in columns of the room that there is.
func (s *screen) fit(l list) {
	l.fit(s.width)
	s.fill(l)
}

// showSites fills the table with the sites. The selected site stays selected wherever it goes.
func (s *screen) showSites() {
	s.rows = s.model.rows()
	s.fill(s.model.siteList(s.rows, s.width))
	if at := s.model.place(s.rows); at >= 0 {
		s.selectRow(at + 1)
	}
}

// selectRow selects a row of the table for the user.
func (s *screen) selectRow(y int) {
	s.filling = true
	s.table.Select(y, 0)
	s.filling = false
}

// fill fills the table. Nothing in a text is a tag of tview. Without rows none can be selected:
// tview would look for one forever.
func (s *screen) fill(l list) {
	s.table.Clear().SetSelectable(len(l.rows) > 0, false)
	if y, _ := s.table.GetSelection(); y > len(l.rows) {
		s.selectRow(len(l.rows))
	}
	for x, title := range l.titles {
		cell := tview.NewTableCell(tview.Escape(l.cell(title, x))).SetSelectable(false)
		s.table.SetCell(0, x, cell.SetAttributes(tcell.AttrBold))
	}
	for y, cells := range l.rows {
		for x, text := range cells {
			cell := tview.NewTableCell(tview.Escape(l.cell(text, x)))
			if s.color && l.colors != nil {
				cell.SetTextColor(l.colors[y])
			}
			s.table.SetCell(y+1, x, cell)
		}
	}
}

// selected remembers which site the user has selected.
func (s *screen) selected(y, _ int) {
	if !s.filling && s.model.about == (subject{}) && y >= 1 && y <= len(s.rows) {
		s.model.selected = s.rows[y-1].site
	}
}

// printSpan is the time of which a printed table has the rates.
const printSpan = time.Second

// Print writes the table once, for a pipe or a file. It takes printSpan, for the rates.
func Print(ctx context.Context, w io.Writer, from Source, address string) error {
	m, a := newModel(address), sampler{from: from}
	first, err := a.take(ctx, subject{})
	if err != nil {
		return err
	}
	m.take(first)
	timer := time.NewTimer(printSpan)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	second, err := a.take(ctx, subject{})
	if err != nil {
		return err
	}
	m.take(second)
	_, err = io.WriteString(w, m.text())
	return err
}

// text is the header and all columns.
func (m *model) text() string {
	var b strings.Builder
	for _, line := range m.header() {
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	l := m.siteList(m.rows(), 0)
	b.WriteString("\n" + l.line(l.titles) + "\n")
	for _, cells := range l.rows {
		b.WriteString(l.line(cells) + "\n")
	}
	return b.String()
}
