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

// parts are collected by line.
type parts []Part

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
	line(&written, "configuration", "%s", cmp.Or(p.File, "no file, the defaults"))
	for i := range p.Sites {
		s := &p.Sites[i]
		describe(&written, fmt.Sprintf("sites[%d]", i), sentences(p.ruleFields(s, p.kept)))
		p.describeOutage(&written, s, s.Limits)
		if s.Learn != p.Defaults.Learn {
			line(&written, "", "learns %s", cmp.Or(when(s.Learn, "the limits that the site announces"), "no limits"))
		}
	}
	for _, pool := range p.pools() {
		all := sentences(pool.fields)
		if list := labels[pool.name]; len(list) > 0 {
			all = slices.Insert(all, 1, plural(len(list), "token")+": "+someOf(list))
		}
		describe(&written, "pool "+pool.name, all)
	}
	for _, c := range p.clients() {
		describe(&written, "client "+c.name, sentences(c.fields))
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
	if len(p.Sites) == 0 {
		line(&builtIn, "sites", "no rules, every host is a site of its own")
	}
	p.describeOthers(of("defaults.limits"))
	line(of("defaults.learn"), "learn", "%s, where no rule says otherwise", cmp.Or(when(p.Defaults.Learn, "limits that sites announce"), "no limits"))
	b := of("listen", "access", "listen_open", "listen_cert")
	line(b, "proxy", "%s, for %s", p.Listen, p.Access.users())
	if p.Open.Listen != "" {
		line(b, "", "%s, where all https is opened", p.Open.Listen)
	}
	if p.TLS.Given() {
		line(b, "", "clients reach it by https://, with the certificate %s", p.TLS.Cert)
	}
	b = of("admin")
	if p.Admin.Listen == "" {
		line(b, "admin", "no listener")
	} else {
		line(b, "admin", "%s, %s a token", p.Admin.Listen, cmp.Or(when(p.Admin.Token.Empty(), "without"), "with"))
	}
	if p.Admin.TLS.Given() {
		line(b, "", "reached by https://, with the certificate %s", p.Admin.TLS.Cert)
	}
	data := p.Data
	if data == "none" {
		data = "nothing is kept" + when(!p.CA.Given(), ", the CA is a new one at each start")
	}
	line(of("data"), "data", "%s", data)
	p.describeStore(of("store", "strict_state"))
	line(of("egress.ports"), "CONNECT", "to ports %s; plain http to any", p.Egress.Ports)
	line(of("intercept"), "intercept", "%s%s", p.Intercept, when(p.Intercept.Mode == "auto", ": hosts whose rule needs to see requests"))
	usual := Defaults().settings()
	for i, s := range p.settings() {
		if s.about != "" && !s.same(usual[i]) {
			line(&written, s.about, "%s", strings.Replace(s.says, "%s", s.show(), 1))
		}
	}
	for _, section := range []string{"ca", "log", "timeouts", "bounds", "queue", "retry", "breaker", "metrics"} {
		p.describeSettings(of(section), section)
	}
	if p.Shard.Of > 0 {
		line(&written, "shard", "%s", p.Shard)
		if p.Shard.By == "url" && p.Intercept.Mode != "all" {
			line(&written, "", "what is in a tunnel is not seen, and so not refused; by: host refuses tunnels, too")
		}
	}
	for i := range builtIn {
		builtIn[i].BuiltIn = true
	}
	return append(written, builtIn...)
}

// describeSettings writes the values of a section of the table in one paragraph, off for a section
// whose first value is 0.
func (p *Policy) describeSettings(b *parts, section string) {
	var words []string
	for _, s := range p.settings() {
		name, ok := strings.CutPrefix(s.Name, section+".")
		if text := s.show(); ok && text != "" {
			words = append(words, name+" "+text)
			if text == "0" && section == "breaker" {
				words = []string{"off"}
				break
			}
		}
	}
	const perLine = 5
	for i, title := 0, section; i < len(words); i, title = i+perLine, "" {
		line(b, title, "%s", strings.Join(words[i:min(i+perLine, len(words))], ", "))
	}
}

// users are the addresses and the clients that may use the proxy.
func (a *Access) users() string {
	who := a.From.String()
	if len(a.Clients) > 0 {
		names := lists.Map(a.Clients, func(c Client) string { return c.Name + c.share() })
		who += " with the secret of " + strings.Join(names, ", ")
	}
	return who
}

// share describes the settings of a client that differ from the defaults; "" if none does.
func (c Client) share() string {
	words := given(c.turn(), when(c.OpensAll, "all https opened"))
	return when(len(words) > 0, " ("+strings.Join(words, ", ")+")")
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

// describeOthers writes what holds for sites that no rule names.
func (p *Policy) describeOthers(b *parts) {
	title := "other sites"
	if len(p.Defaults.Limits) == 0 {
		line(b, title, "no limits")
		return
	}
	describe(b, title, lists.Map(p.Defaults.Limits, p.kept))
	p.describeOutage(b, nil, p.Defaults.Limits)
	if needRequests(p.Defaults.Limits) {
		switch p.Intercept.Mode {
		case "all":
		case "none":
			line(b, "", "for plain http alone, as intercept is none")
		default:
			line(b, "", "for plain http, and the https that intercept opens")
		}
	}
}

// describe writes sentences below a title.
func describe(b *parts, title string, sentences []string) {
	for _, text := range sentences {
		line(b, title, "%s", text)
		title = ""
	}
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
	origins := make([]string, len(s.Backends))
	shared := false
	for i := range s.Backends {
		origins[i] = s.Backends[i].String()
		shared = shared || !s.Backends[i].Own
	}
	text := someOf(origins) + ", " + s.Balance
	if s.Sticky {
		text += ", a client stays with one"
	}
	switch {
	case len(s.Limits) > 0 && shared && slices.ContainsFunc(s.Backends, func(b Backend) bool { return b.Own }):
		text += "; each without limits of its own has those of the rule for itself"
	case len(s.Limits) > 0 && shared:
		text += "; each has the limits for itself"
	}
	return text
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

// describeStore writes where budgets are kept, and which of them are shared.
func (s *Storage) describeStore(b *parts) {
	file := filepath.Join(s.Data, "abide.db") + when(s.StrictState, ", which abide does not serve without")
	switch {
	case s.Store.Shared():
		line(b, "store", "%s", s.Store)
		line(b, "", "limits that say shared hold for all that have this store together")
		line(b, "", "cooldowns, dead tokens and what sites announce are shared, too")
		if s.Data != "none" {
			line(b, "", "the bandwidth of this one is in %s", file)
		}
	case s.Data == "none":
		line(b, "store", "local, in memory: a restart forgets what was spent")
	default:
		line(b, "store", "local, in %s", file)
		line(b, "", "what was spent and learned outlives a restart; each abide on this machine with this directory shares it")
	}
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
func (s *Storage) describeOutage(b *parts, rule *Site, limits []Limit) {
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
	return fmt.Sprintf("%d of %d, parts of the %s by their hash, from 0 on", s.Index, s.Of, cmp.Or(when(s.By == "host", "hosts"), "URLs"))
}
