package budget

import (
	"fmt"
	"strings"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
)

// Names translates keys of the queue's slots to names that are the same in every process.
type Names interface {
	// Stable is the name of a slot's key at a site.
	Stable(site, key string) string
	// Local is the reverse: the keys of a name in this process, for the slots of a limit.
	// There are none for a token that this process does not have.
	Local(site, limit, name string) []string
	// Lasting tells whether a key has a meaning in other processes.
	Lasting(key string) bool
}

// trickleSuffix ends the names and units of trickle limits: see package bandwidth.
const trickleSuffix = " trickle"

// NameOf is the name of a configured limit without its amounts: with another amount after a
// reload it is the same limit, and used units stay used. Stores have these names, and
// subjectIn parses them.
func NameOf(l *policy.Limit) string {
	return fmt.Sprintf("%s %s per %s %s by %s for %s %s", l.As, l.Unit, l.Per, l.Timezone, l.By, l.Method, l.Path)
}

// subjectIn parses a limit's name for what the limit counts, and its kind: see NameOf.
func subjectIn(name string) (queue.Subject, limit.As) {
	name, trickle := strings.CutSuffix(name, trickleSuffix)
	part := strings.SplitN(name, " ", 10)
	if len(part) < 10 || part[2] != "per" || part[5] != "by" || part[7] != "for" || part[1] == "concurrency" {
		return queue.Subject{}, ""
	}
	path, at, _ := strings.Cut(part[9], " at ")
	path, _, _ = strings.Cut(path, " ")
	s := queue.Subject{Unit: part[1], By: part[6], At: at, Method: part[8], Path: path}
	if trickle {
		s.Unit += trickleSuffix
	}
	return s, limit.As(part[0])
}
