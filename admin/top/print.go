package top

import (
	"context"
	"io"
	"strings"
	"time"
)

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
