package paginate

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxRecent is the number of positions that a walk remembers in memory.
const maxRecent = 10_000

// cycle finds a repetition in a sequence with one remembered element (Brent's algorithm): an
// element is compared with the one at the last power of two.
type cycle struct {
	Mark  string `json:"mark,omitempty"`
	Steps int    `json:"steps,omitempty"` // since Mark
	Power int    `json:"power,omitempty"`
}

// add adds an element, and says whether it is the remembered one.
func (c *cycle) add(element string) bool {
	if c.Mark == element {
		return true
	}
	c.Steps++
	if c.Steps >= c.Power {
		c.Mark, c.Steps, c.Power = element, 0, max(2*c.Power, 1)
	}
	return false
}

// recent are the last elements of a sequence.
type recent struct {
	ring []string
	next int
	has  map[string]bool
}

// add adds an element, and says whether it is among the last ones.
func (r *recent) add(element string) bool {
	if r.has[element] {
		return true
	}
	if r.has == nil {
		r.has = map[string]bool{}
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, element)
	} else {
		delete(r.has, r.ring[r.next])
		r.ring[r.next] = element
		r.next = (r.next + 1) % maxRecent
	}
	r.has[element] = true
	return false
}

// short is a hash that stands for a cursor or a URL.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:10])
}
