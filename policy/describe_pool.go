package policy

import (
	"strings"
)

// describe writes what a pool is. Labels are those of its tokens, where they have
// been read.
func (p *Pool) describe(b *strings.Builder, labels []string) {
	line(b, "pool "+p.Name, "%s as %s", p.source(), p.Put)
	if len(labels) > 0 {
		line(b, "", "%s: %s", plural(len(labels), "token"), someOf(labels))
	}
	if p.OAuth2.TokenURL != "" {
		text := "each is exchanged at " + p.OAuth2.TokenURL
		if len(p.OAuth2.Scopes) > 0 {
			text += " for " + strings.Join(p.OAuth2.Scopes, ", ")
		}
		line(b, "", "%s", text)
	}
	if p.Reserve != (Reserve{}) {
		line(b, "", "reserve %s of every limit that is learned", p.Reserve)
	}
	line(b, "", "%s", p.exhaustedText())
	for _, l := range p.Limits {
		line(b, "", "%s", l)
	}
}

// exhaustedText is what becomes of requests when no token can go.
func (p *Pool) exhaustedText() string {
	text := "when none is usable, requests wait"
	if p.Exhausted == "refuse" {
		text = "when none is usable, requests are refused"
	}
	if p.Anonymous {
		text = "when none is usable, requests go without"
	}
	return text
}

// poolText describes the pool of the rule.
func (s *Site) poolText() string {
	text := "pool " + s.Pool
	if s.Insecure {
		text += ", over plain http too"
	}
	return text
}

func (s *Site) learnText() string {
	if s.Learn {
		return "learns the limits that the site announces"
	}
	return "learns no limits"
}

// dialectText summarises the configured dialect.
func (s *Site) dialectText() string {
	var parts []string
	for _, one := range []struct {
		n    int
		name string
	}{
		{len(s.Dialect.Headers), "header"}, {len(s.Dialect.Body), "member"}, {len(s.Dialect.Refusals), "refusal"},
	} {
		if one.n > 0 {
			parts = append(parts, plural(one.n, one.name))
		}
	}
	if len(parts) == 0 {
		return "a dialect of its own"
	}
	return "a dialect of its own: " + strings.Join(parts, ", ")
}
