package policy

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// describeStore writes where budgets are kept, and which of them are shared.
func (s *Storage) describeStore(b *strings.Builder) {
	strict := ""
	if s.StrictState {
		strict = ", which abide does not serve without"
	}
	file := ""
	if s.Data != "none" {
		file = filepath.Join(s.Data, "abide.db")
	}
	if !s.Store.Shared() {
		if file == "" {
			line(b, "store", "local, in memory: a restart forgets what was spent")
			return
		}
		line(b, "store", "local, in %s%s", file, strict)
		line(b, "", "what was spent and learned outlives a restart; nobody shares it")
		return
	}
	line(b, "store", "%s", s.Store)
	line(b, "", "limits that say shared hold for all that have this store together")
	line(b, "", "cooldowns, dead tokens and what sites announce are shared, too")
	if file != "" {
		line(b, "", "the bandwidth of this one is in %s%s", file, strict)
	}
}

// kept describes a limit, and whether instances with one store share it.
func (s *Storage) kept(l Limit) string {
	if !s.Store.Shared() {
		return l.String()
	}
	return l.String() + ", " + l.sharing()
}

// sharing is how a limit is kept in a store that several have.
func (l *Limit) sharing() string {
	switch {
	case !l.Shared():
		return "each abide has it for itself"
	case l.As != limit.Rolling && l.Traits().Fleet == limit.BySlot:
		return "shared, kept as rolling"
	case l.Traits().Fleet == limit.ByHalfBurst:
		// A window of the clock and the next one together never have more than the burst.
		n := l.Burst / 2
		amount := fmt.Sprint(n)
		if l.Unit == Bytes {
			amount = Size(n).String()
		}
		width := time.Duration(float64(n) * float64(l.Per.Length) / float64(l.Amount))
		if width > time.Millisecond {
			width = width.Round(time.Millisecond)
		}
		return fmt.Sprintf("shared, kept as %s per %s (fixed)", amount, formatDuration(width))
	}
	return "shared"
}

// describeOutage writes what becomes of a rule's shared limits while the store is
// away. A nil rule is that of other sites.
func (s *Storage) describeOutage(b *strings.Builder, rule *Site, limits []Limit) {
	if !s.Store.Shared() {
		return
	}
	ways, strict := map[string]bool{}, map[string]bool{}
	for i := range limits {
		l := &limits[i]
		if !l.Shared() {
			continue
		}
		way := rule.OutageOf(l)
		ways[way] = true
		switch {
		case way != "strict":
		case l.By == "token":
			strict["by token"] = true
		case l.long():
			strict["for a day or longer"] = true
		}
	}
	whose := "what is shared"
	if len(ways) > 1 {
		whose += " " + strings.Join(slices.Sorted(maps.Keys(strict)), " or ")
	}
	if ways["strict"] {
		line(b, "", "while the store is away, of %s only what was leased is spent (strict)", whose)
		whose = "what else is shared"
	}
	if ways["share"] {
		line(b, "", "while the store is away, each abide has its part of %s (share)", whose)
	}
	if ways["open"] {
		line(b, "", "while the store is away, each abide has all of %s for itself (open)", whose)
	}
}

// String describes the shard: its number, the number of parts, and what is divided.
func (s Shard) String() string {
	what := "the URLs"
	if s.By == "host" {
		what = "the hosts"
	}
	return fmt.Sprintf("%d of %d, parts of %s by their hash, from 0 on", s.Index, s.Of, what)
}
