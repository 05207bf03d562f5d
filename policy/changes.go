package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

// Changes are the differences between two configurations, in short phrases such as
// "rules 3 → 0" or "limits of api.example.com changed". tokens are the changes of pools' tokens, by the
// pool's name: tokens are in the pool's file, which is not part of a Policy. Phrases never have a secret. The
// list is empty if the configurations mean the same.
func Changes(old, next *Policy, tokens map[string]TokenChange) []string {
	list := changes("rule", "", old.rules(), next.rules())
	if !reflect.DeepEqual(old.Defaults.Limits, next.Defaults.Limits) {
		list = append(list, "limits of defaults changed")
	}
	list = append(list, changes("pool", "pool ", old.pools(), next.pools())...)
	for _, pool := range next.Pools {
		c, others := tokens[pool.Name], "tokens of pool "+pool.Name+" changed"
		if before := c.Now + len(c.Removed) - len(c.Added); before != c.Now {
			list = append(list, fmt.Sprintf("pool %s: %d → %s", pool.Name, before, plural(c.Now, "token")))
		} else if len(c.Added) > 0 && !slices.Contains(list, others) {
			list = append(list, others)
		}
	}
	list = append(list, changes("client", "client ", old.clients(), next.clients())...)
	after := next.settings()
	for i, s := range old.settings() {
		if s.same(after[i]) {
			continue
		}
		a, b := s.show(), after[i].show()
		if s.text != PlainText {
			a, b = "", ""
		}
		if entries := differing(s.Name, a, b); s.shape != single && len(entries) > 0 {
			list = append(list, entries...)
		} else {
			list = append(list, changeText(s.Name, a, b))
		}
	}
	const most = 20
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and %d more changes", more))
	}
	return list
}

// TokenChange describes the tokens of a pool that a reload has added and removed, by their labels, and how
// many there are now. A token is another one if its secret is.
type TokenChange struct {
	Added, Removed []string
	Now            int
}

// differing names the entries that were added to a list, written with commas, or removed; nil where none has stayed.
func differing(name, old, next string) []string {
	became, stays := map[string]string{}, false
	for one := range strings.SplitSeq(old, ", ") {
		became[one] = name + " " + one + " removed"
	}
	for one := range strings.SplitSeq(next, ", ") {
		if became[one] == "" {
			became[one] = name + " " + one + " added"
		} else {
			delete(became, one)
			stays = true
		}
	}
	if !stays {
		return nil
	}
	return slices.Sorted(maps.Values(became))
}

// NeedRestart returns the keys of which a running process cannot change the value: addresses, the
// data directory, and sizes that are fixed at the start.
func NeedRestart(old, next *Policy) (keys []string) {
	after := next.settings()
	for i, s := range old.settings() {
		if s.restart && !s.same(after[i]) {
			keys = append(keys, s.Name)
		}
	}
	return keys
}

// item is a rule, a pool or a client.
type item struct {
	name   string // one of its kind has it
	fields []Field
}

// rules returns the rules by their titles. The second rule of a title has a number behind it.
func (p *Policy) rules() (all []item) {
	seen := map[string]int{}
	for i := range p.Sites {
		name := p.Sites[i].Title()
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		all = append(all, item{name, p.ruleFields(&p.Sites[i], p.kept)})
	}
	return all
}

func (p *Policy) pools() []item {
	return lists.Map(p.Pools, func(pool Pool) item { return item{pool.Name, poolFields(nil, &pool)} })
}

func (p *Policy) clients() []item {
	return lists.Map(p.Access.Clients, func(c Client) item {
		return item{c.Name, clientFields(&Decoder{}, &c, nil)}
	})
}

// changes describes the differences between two lists of one kind. of stands before the names of
// the items whose fields differ.
func changes(kind, of string, old, next []item) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(old) != len(next) {
		add("%ss %d → %d", kind, len(old), len(next))
	}
	after := map[string][]Field{}
	for _, b := range next {
		after[b.name] = b.fields
	}
	same := len(old) == len(next)
	for _, a := range old {
		fields, stays := after[a.name]
		if same = same && stays; !stays {
			add("%s %s removed", kind, a.name)
		}
		for i := range fields {
			if before, now := a.fields[i], fields[i]; !reflect.DeepEqual(before.to, now.to) {
				all = append(all, changeText(now.name+" of "+of+a.name, word(before.to), word(now.to)))
			}
		}
		delete(after, a.name)
	}
	for _, b := range next {
		if after[b.name] != nil {
			add("%s %s added", kind, b.name)
		}
	}
	if kind == "rule" && same && !slices.EqualFunc(old, next, func(a, b item) bool { return a.name == b.name }) {
		add("order of rules changed")
	}
	return all
}

// ChangesText is the list in one line.
func ChangesText(changes []string) string {
	if len(changes) == 0 {
		return "nothing has changed"
	}
	return strings.Join(changes, "; ")
}

// both points to the two values that one key sets.
type both struct{ shown, also any }

// word returns a value as JSON or YAML has it; nil if it has more than a word, or is not set.
func word(to any) any {
	if two, ok := to.(both); ok {
		to = two.shown
	}
	at := reflect.ValueOf(to).Elem()
	switch v := at.Interface().(type) {
	case int, int64, bool:
		return v
	case time.Duration:
		switch {
		case v < 0:
			return "off"
		case v > 0:
			return formatDuration(v)
		}
	case Rate:
		return v.exact()
	case fmt.Stringer:
		return v.String()
	}
	if at.Kind() == reflect.String && at.String() != "" {
		return at.String()
	}
	return nil
}

// changeText describes the change of a value from a word to another. Values of which the words are
// equal have more than a word, or are secret.
func changeText(what string, old, next any) string {
	if old == next {
		return what + " changed"
	}
	text := func(word any) string {
		if word == nil || word == "" {
			return "none"
		}
		return fmt.Sprint(word)
	}
	return fmt.Sprintf("%s %s → %s", what, text(old), text(next))
}
