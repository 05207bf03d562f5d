package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// mostChanges bounds what Changes lists; one sentence summarises the rest.
const mostChanges = 20

// Changes are the differences between two configurations, in short phrases such as
// "rules 3 → 0" or "limits of api.example.com changed". oldTokens and newTokens count the
// tokens of each pool, by the pool's name: they are in the pool's file, which is not part
// of a Policy. Phrases never have a secret. The list is empty if the configurations mean the
// same.
//
// If you add a field to Policy that is not one of Keys, also compare it here.
func Changes(old, next *Policy, oldTokens, newTokens map[string]int) []string {
	var list changeList
	list.count("rules", len(old.Sites), len(next.Sites))
	list.rules(old.Sites, next.Sites)
	if !reflect.DeepEqual(withoutLines(old.Defaults.Limits), withoutLines(next.Defaults.Limits)) {
		list.add("limits of defaults changed")
	}
	list.count("pools", len(old.Pools), len(next.Pools))
	list.pools(old, next, oldTokens, newTokens)
	list.count("clients", len(old.Access.Clients), len(next.Access.Clients))
	list.clients(old.Access.Clients, next.Access.Clients)
	for _, s := range settings() {
		list.setting(s, old, next)
	}
	if more := len(list) - mostChanges; more > 0 {
		list = append(list[:mostChanges], fmt.Sprintf("and %d more changes", more))
	}
	return list
}

type changeList []string

func (l *changeList) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

func (l *changeList) count(what string, old, next int) {
	if old != next {
		l.add("%s %d → %d", what, old, next)
	}
}

// setting compares one scalar key. The value of one that may have a secret in it is not
// shown.
func (l *changeList) setting(s setting, old, next *Policy) {
	a, b := s.show(old), s.show(next)
	switch {
	case s.Name == "admin.token":
		if !old.Admin.Token.Equal(next.Admin.Token.Reveal()) && !(old.Admin.Token.Empty() && next.Admin.Token.Empty()) {
			l.add("admin.token changed")
		}
	case a == b:
	case s.text != PlainText:
		l.add("%s changed", s.Name)
	default:
		l.add("%s %s → %s", s.Name, cmp.Or(a, "none"), cmp.Or(b, "none"))
	}
}

// rules compares rules by their title. Two rules with one title are compared in their
// order.
func (l *changeList) rules(old, next []Site) {
	before, after := byTitle(old), byTitle(next)
	for _, title := range inOrder(old, next, (*Site).Title) {
		a, b := before[title], after[title]
		switch {
		case len(a) == 0:
			l.add("rule %s added", title)
		case len(b) == 0:
			l.add("rule %s removed", title)
		default:
			l.rule(title, a, b)
		}
	}
	if len(old) == len(next) && len(before) == len(after) && !slices.EqualFunc(old, next, func(a, b Site) bool { return a.Title() == b.Title() }) &&
		!slices.ContainsFunc(old, func(s Site) bool { return after[s.Title()] == nil }) {
		l.add("order of rules changed")
	}
}

func (l *changeList) rule(title string, a, b []Site) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			l.add("another rule %s added", title)
			continue
		case i >= len(b):
			l.add("another rule %s removed", title)
			continue
		}
		x, y := a[i], b[i]
		if !reflect.DeepEqual(withoutLines(x.Limits), withoutLines(y.Limits)) {
			l.add("limits of %s changed", title)
		}
		if x.Pool != y.Pool {
			l.add("pool of %s %s → %s", title, cmp.Or(x.Pool, "none"), cmp.Or(y.Pool, "none"))
		}
		for _, one := range []*Site{&x, &y} {
			one.Limits, one.Pool, one.Line = nil, "", 0
		}
		if !reflect.DeepEqual(x, y) {
			l.add("settings of %s changed", title)
		}
	}
}

func (l *changeList) pools(old, next *Policy, oldTokens, newTokens map[string]int) {
	for _, name := range inOrder(old.Pools, next.Pools, func(p *Pool) string { return p.Name }) {
		a, b := old.Pool(name), next.Pool(name)
		switch {
		case a == nil:
			l.add("pool %s added with %s", name, plural(newTokens[name], "token"))
			continue
		case b == nil:
			l.add("pool %s removed", name)
			continue
		}
		if n, m := oldTokens[name], newTokens[name]; n != m {
			l.add("pool %s: %d → %s", name, n, plural(m, "token"))
		}
		if !reflect.DeepEqual(withoutLines(a.Limits), withoutLines(b.Limits)) {
			l.add("limits of pool %s changed", name)
		}
		x, y := *a, *b
		for _, one := range []*Pool{&x, &y} {
			one.Limits, one.Line, one.Tokens = nil, 0, slices.Clone(one.Tokens)
			for i := range one.Tokens {
				one.Tokens[i].Line = 0
			}
		}
		if len(x.Tokens) != len(y.Tokens) { // reported already
			x.Tokens, y.Tokens = nil, nil
		}
		if !reflect.DeepEqual(x, y) {
			l.add("settings of pool %s changed", name)
		}
	}
}

func (l *changeList) clients(old, next []Client) {
	find := func(list []Client, name string) *Client {
		i := slices.IndexFunc(list, func(c Client) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	for _, name := range inOrder(old, next, func(c *Client) string { return c.Name }) {
		a, b := find(old, name), find(next, name)
		switch {
		case a == nil:
			l.add("client %s added", name)
		case b == nil:
			l.add("client %s removed", name)
		default:
			x, y := *a, *b
			x.rules, y.rules, x.Limits, y.Limits = nil, nil, withoutLines(a.Limits), withoutLines(b.Limits)
			if !reflect.DeepEqual(x, y) {
				l.add("client %s changed", name)
			}
		}
	}
}

// withoutLines are limits without their line numbers.
func withoutLines(limits []Limit) []Limit {
	list := make([]Limit, len(limits))
	for i, one := range limits {
		one.Line = 0
		list[i] = one
	}
	return list
}

func byTitle(sites []Site) map[string][]Site {
	by := map[string][]Site{}
	for _, one := range sites {
		by[one.Title()] = append(by[one.Title()], one)
	}
	return by
}

// inOrder are the names of both lists, each once, those of the first list first.
func inOrder[T any](old, next []T, name func(*T) string) []string {
	var names []string
	seen := map[string]bool{}
	for _, list := range [][]T{old, next} {
		for i := range list {
			if n := name(&list[i]); !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return names
}

// ChangesText is the list in one line.
func ChangesText(changes []string) string {
	if len(changes) == 0 {
		return "nothing has changed"
	}
	return strings.Join(changes, "; ")
}
