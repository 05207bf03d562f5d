package metrics

import "sync/atomic"

// words are the fixed values of a label; any other value counts as "other".
type words [6]string

var (
	replayReasons = words{"refused", "unavailable", "connection", "gateway", "verified"}
	refusalScopes = words{"site", "route", "backend"}
	unreadReasons = words{"auto", "unlisted", "none", "excluded", "refused", "constrained"}
)

// wordCounts are counters by words. The zero value is empty.
type wordCounts [len(words{}) + 1]atomic.Uint64

func (c *wordCounts) at(all *words, word string) *atomic.Uint64 {
	for i, one := range all {
		if one == word && word != "" {
			return &c[i]
		}
	}
	return &c[len(all)]
}

// each calls do for every used counter.
func (c *wordCounts) each(all *words, do func(word string, n uint64)) {
	for i := range c {
		word := other
		if i < len(all) {
			word = all[i]
		}
		if n := c[i].Load(); n > 0 {
			do(word, n)
		}
	}
}

func (c *wordCounts) moveTo(to *wordCounts) {
	for i := range c {
		move(&c[i], &to[i])
	}
}
