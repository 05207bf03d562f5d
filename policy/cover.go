package policy

import "strings"

// cover finds, for a pattern, the first of the patterns before it that matches
// everything it matches. The zero value has none.
type cover struct {
	index index
	begun bool
}

func (c *cover) add(p Pattern, number int) {
	if !c.begun {
		c.index, c.begun = newIndex(nil), true
	}
	c.index.add(p, int32(number))
}

func (c *cover) by(p Pattern) (int, bool) {
	if !c.begun {
		return 0, false
	}
	find := func(e ports) int32 {
		if p.Port == 0 {
			return e.any // patterns for single ports do not add up to all of them
		}
		return e.find(p.Port)
	}
	first := find(c.index.all)
	if !p.All && !p.Below {
		if entry, ok := c.index.exact[p.Host]; ok {
			first = min(first, find(entry))
		}
	}
	above := p.Host // the part after "*." of patterns that may cover p
	if !p.Below {
		_, above, _ = strings.Cut(above, ".")
	}
	for ; above != ""; _, above, _ = strings.Cut(above, ".") {
		if entry, ok := c.index.below[above]; ok {
			first = min(first, find(entry))
		}
	}
	return int(first), first != none
}
