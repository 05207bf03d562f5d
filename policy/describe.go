package policy

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit"
)

// Part has what a configuration says about one thing.
type Part struct {
	About   string   `json:"about"`
	Says    []string `json:"says"`
	BuiltIn bool     `json:"built_in"` // nobody has written it
}

// parts are collected by say.
type parts []Part

// say adds the sentences that are not empty under a title; "" is that of the part before.
func (b *parts) say(title string, sentences ...string) {
	sentences = given(sentences...)
	switch last := len(*b) - 1; {
	case len(sentences) == 0:
	case title == "":
		(*b)[last].Says = append((*b)[last].Says, sentences...)
	default:
		*b = append(*b, Part{About: title, Says: sentences})
	}
}

// WriteParts writes parts as text, a line for each sentence.
func WriteParts(w io.Writer, all []Part) {
	for i, part := range all {
		if part.BuiltIn && !all[i-1].BuiltIn {
			fmt.Fprintln(w, "\nbuilt in, where nothing else is written:")
		}
		for _, text := range part.Says {
			fmt.Fprintf(w, "%-15s %s\n", part.About, text)
			part.About = ""
		}
	}
}

// Settings returns the settings that are one value, as they are written. Secrets are redacted.
func (p *Policy) Settings() map[string]string {
	all := map[string]string{}
	for _, s := range p.settings() {
		all[s.Name] = s.show()
	}
	return all
}

// Parts returns what the configuration means, without any secret: the rules, what else the operator has written, what is built
// in. labels has the labels of each pool's tokens, by the pool's name; nil: they are not listed.
func (p *Policy) Parts(labels map[string][]string) []Part {
	var written, builtIn parts
	written.say("configuration", cmp.Or(p.File, "no file, the defaults"))
	for i := range p.Sites {
		s := &p.Sites[i]
		written.say(fmt.Sprintf("sites[%d]", i), sentences(p.ruleFields(s, p.kept))...)
		written.say("", p.outages(s, s.Limits)...)
		written.say("", when(s.Learn != p.Defaults.Learn, "learns "+cmp.Or(when(s.Learn, "the limits that the site announces"), "no limits")))
	}
	for _, pool := range p.pools() {
		all := sentences(pool.fields)
		if list := labels[pool.name]; len(list) > 0 {
			all = slices.Insert(all, 1, plural(len(list), "token")+": "+someOf(list))
		}
		written.say("pool "+pool.name, all...)
	}
	for _, c := range p.clients() {
		written.say("client "+c.name, sentences(c.fields)...)
	}
	// of returns the parts to which a key belongs, or a section of them.
	of := func(keys ...string) *parts {
		for key := range p.written {
			if slices.ContainsFunc(keys, func(k string) bool { return key == k || strings.HasPrefix(key, k+".") }) {
				return &written
			}
		}
		return &builtIn
	}
	builtIn.say("sites", when(len(p.Sites) == 0, "no rules, every host is a site of its own"))
	of("defaults.limits").say("other sites", p.others()...)
	of("defaults.learn").say("learn", cmp.Or(when(p.Defaults.Learn, "limits that sites announce"), "no limits")+", where no rule says otherwise")
	of("listen", "access", "listen_open", "listen_cert").say("proxy", p.Listen+", for "+p.Access.users(),
		when(p.Open.Listen != "", p.Open.Listen+", where all https is opened"),
		when(p.TLS.Given(), "clients reach it by https://, with the certificate "+p.TLS.Cert))
	of("admin").say("admin", cmp.Or(when(p.Admin.Listen != "", p.Admin.Listen+", "+cmp.Or(when(p.Admin.Token.Empty(), "without"), "with")+" a token"), "no listener"),
		when(p.Admin.TLS.Given(), "reached by https://, with the certificate "+p.Admin.TLS.Cert))
	data := p.Data
	if data == "none" {
		data = "nothing is kept" + when(!p.CA.Given(), ", the CA is a new one at each start")
	}
	of("data").say("data", data)
	of("store", "strict_state").say("store", p.budgets()...)
	of("egress.ports").say("CONNECT", fmt.Sprintf("to ports %s; plain http to any", p.Egress.Ports))
	of("intercept").say("intercept", p.Intercept.String()+when(p.Intercept.Mode == "auto", ": hosts whose rule needs to see requests"))
	usual := Defaults().settings()
	for i, s := range p.settings() {
		if s.about != "" && !s.same(usual[i]) {
			written.say(s.about, strings.Replace(s.says, "%s", s.show(), 1))
		}
	}
	for _, section := range []string{"ca", "log", "timeouts", "bounds", "queue", "retry", "breaker", "metrics"} {
		of(section).say(section, p.sectionText(section)...)
	}
	if p.Shard.Of > 0 {
		written.say("shard", p.Shard.String(), when(p.Shard.By == "url" && p.Intercept.Mode != "all",
			"what is in a tunnel is not seen, and so not refused; by: host refuses tunnels, too"))
	}
	for i := range builtIn {
		builtIn[i].BuiltIn = true
	}
	return append(written, builtIn...)
}

// sectionText returns the values of a section of the table in one paragraph, off for a section
// whose first value is 0.
func (p *Policy) sectionText(section string) (lines []string) {
	var words []string
	for _, s := range p.settings() {
		name, ok := strings.CutPrefix(s.Name, section+".")
		if text := s.show(); ok && text != "" {
			words = append(words, name+" "+text)
			if text == "0" && section == "breaker" {
				return []string{"off"}
			}
		}
	}
	const perLine = 5
	for some := range slices.Chunk(words, perLine) {
		lines = append(lines, strings.Join(some, ", "))
	}
	return lines
}

// users are the addresses and the clients that may use the proxy.
func (a *Access) users() string {
	names := lists.Map(a.Clients, func(c Client) string {
		differs := given(c.turn(), when(c.OpensAll, "all https opened"))
		return c.Name + when(len(differs) > 0, " ("+strings.Join(differs, ", ")+")")
	})
	return a.From.String() + when(len(names) > 0, " with the secret of "+strings.Join(names, ", "))
}

// turn describes what decides when the requests of a client go before those of others, or after them; "" for the usual.
func (c *Client) turn() string {
	return strings.Join(given(when(c.Weight != 1, fmt.Sprint("weight ", c.Weight)), when(c.Capped, fmt.Sprintf("priority %d or less urgent", c.Priority))), ", ")
}

// Turns names the clients and rules whose requests go before those of others, or after them; "": there are none.
func (p *Policy) Turns() string {
	list := lists.Map(p.Access.Clients, func(c Client) string { return when(c.turn() != "", c.Name+" ("+c.turn()+")") })
	for i := range p.Sites {
		list = append(list, when(p.Sites[i].Priority != DefaultPriority, fmt.Sprintf("%s (priority %d)", p.Sites[i].Title(), p.Sites[i].Priority)))
	}
	return someOf(given(list...))
}

// others returns what holds for sites that no rule names.
func (p *Policy) others() []string {
	limits := p.Defaults.Limits
	if len(limits) == 0 {
		return []string{"no limits"}
	}
	all := append(lists.Map(limits, p.kept), p.outages(nil, limits)...)
	switch {
	case !needRequests(limits) || p.Intercept.Mode == "all":
		return all
	case p.Intercept.Mode == "none":
		return append(all, "for plain http alone, as intercept is none")
	}
	return append(all, "for plain http, and the https that intercept opens")
}

// sentences returns what some fields say.
func sentences(fields []Field) (all []string) {
	for _, f := range fields {
		all = append(all, f.says...)
	}
	return all
}

// ruleFields returns the fields of a rule, whose limits show describes.
func (p *Policy) ruleFields(s *Site, show func(Limit) string) []Field {
	return (&siteReading{d: &Decoder{}, site: s, show: show}).fields()
}

// backendsText is the backends of the rule, and how requests are spread over them.
func (s *Site) backendsText() string {
	limited := lists.Only(s.Backends, func(b Backend) bool { return b.Own })
	origins := lists.Map(s.Backends, func(b Backend) string { return b.String() })
	text := someOf(origins) + ", " + s.Balance + when(s.Sticky, ", a client stays with one")
	switch {
	case len(s.Limits) == 0 || len(limited) == len(s.Backends):
		return text
	case len(limited) > 0:
		return text + "; each without limits of its own has those of the rule for itself"
	}
	return text + "; each has the limits for itself"
}

// bytesText describes whether the byte limits count tunnels, and the longest pause of a
// body; "" without byte limits.
func (s *Site) bytesText() string {
	tunnels, stall := "", time.Duration(0)
	for _, l := range s.Limits {
		if l.Unit != Bytes {
			continue
		}
		if !l.NeedsRequests() {
			tunnels = ", in tunnels too"
		}
		if stall == 0 || l.Stall < stall {
			stall = l.Stall
		}
	}
	if stall == 0 {
		return ""
	}
	return fmt.Sprintf("bytes count both ways, with headers and TLS%s; a body that stands still for %s is cut", tunnels, formatDuration(stall))
}

// budgets returns where budgets are kept, and which of them are shared.
func (s *Storage) budgets() []string {
	file := filepath.Join(s.Data, "abide.db") + when(s.StrictState, ", which abide does not serve without")
	switch {
	case s.Store.Shared():
		return []string{
			s.Store.String(), "limits that say shared hold for all that have this store together",
			"cooldowns, dead tokens and what sites announce are shared, too",
			when(s.Data != "none", "the bandwidth of this one is in "+file),
		}
	case s.Data == "none":
		return []string{"local, in memory: a restart forgets what was spent"}
	}
	return []string{"local, in " + file, "what was spent and learned outlives a restart; each abide on this machine with this directory shares it"}
}

// kept describes a limit, and whether instances with one store share it.
func (s *Storage) kept(l Limit) string {
	if !s.Store.Shared() {
		return l.String()
	}
	return l.String() + ", " + l.sharing()
}

// sharing describes whether the limit is shared, and the form in which the store counts it.
func (l *Limit) sharing() string {
	switch {
	case !l.Shared():
		return "each abide has it for itself"
	case l.As != limit.Rolling && l.Traits().Fleet == limit.BySlot:
		return "shared, kept as rolling"
	case l.Traits().Fleet == limit.ByHalfBurst:
		// A window of the clock and the next one together never have more than the burst.
		n := l.Burst / 2
		width := time.Duration(float64(n) * float64(l.Per.Length) / float64(l.Amount))
		if width > time.Millisecond {
			width = width.Round(time.Millisecond)
		}
		return fmt.Sprintf("shared, kept as %s per %s (fixed)", l.number(n), formatDuration(width))
	}
	return "shared"
}

// outages returns what becomes of a rule's shared limits while the store is
// away. A nil rule is that of other sites.
func (s *Storage) outages(rule *Site, limits []Limit) []string {
	if !s.Store.Shared() {
		return nil
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
	whose := "what is shared" + when(len(ways) > 1, " "+strings.Join(slices.Sorted(maps.Keys(strict)), " or "))
	others := cmp.Or(when(ways["strict"], "what else is shared"), whose)
	away := func(way, text string) string { return when(ways[way], "while the store is away, "+text+" ("+way+")") }
	return []string{
		away("strict", "of "+whose+" only what was leased is spent"), away("share", "each abide has its part of "+others),
		away("open", "each abide has all of "+others+" for itself"),
	}
}

// String describes the shard: its number, the number of parts, and what is divided.
func (s Shard) String() string {
	return fmt.Sprintf("%d of %d, parts of the %s by their hash, from 0 on", s.Index, s.Of, cmp.Or(when(s.By == "host", "hosts"), "URLs"))
}
