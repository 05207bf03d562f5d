package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// Backend is a server that answers instead of a rule's hosts.
type Backend struct {
	Target

	Name   string // what status, metrics and pages show
	Weight int    // its share of the requests beside the others, from 1
	// Limits hold there instead of the rule's, if Own; else each backend has the rule's
	// for itself.
	Limits []Limit
	Own    bool
}

// usualName is the name of a backend that has none of its own: its origin, of which
// https goes without saying.
func (b *Backend) usualName() string { return strings.TrimPrefix(b.Origin(), "https://") }

// String is the backend as it is described: https://a.example (snscrape), weight 2.
func (b *Backend) String() string {
	text := b.Origin()
	if b.Name != b.usualName() {
		text += " (" + b.Name + ")"
	}
	if b.Weight != 1 {
		text += fmt.Sprintf(", weight %d", b.Weight)
	}
	return text
}

// backendName is a word that can stand in labels and keys.
var backendName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// mostWeight of a backend or a client is far more than differs in practice.
const mostWeight = 1000
