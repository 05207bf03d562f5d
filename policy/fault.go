package policy

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Source string // a file, a variable or a flag
	Line   int    // of the file, 0 elsewhere
	Key    string // dotted, such as sites[2].limits[0].per
	Text   string // what is wrong and what to write; never a secret
}

// Error is the fault as an editor can jump to it: abide.yaml:14: sites[2].host: …
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Source)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is every fault of a configuration, in the order of the file, then of
// the environment and the command line. It is never empty.
type Faults []Fault

// Error has one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}
