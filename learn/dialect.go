package learn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Dialect is what one service says in a way of its own. Every field that is
// empty says nothing. The ones that this package has are in dialects.go; an
// operator may give a site another, which is read before those.
type Dialect struct {
	Name  string
	Hosts []string // exact, or *.example.com; none: wherever its headers are met
	Paths []string // what a path begins with; none: all

	Headers  []Header
	Body     []Header // the same for members of JSON; Name is the key
	Refusals []Refusal

	// ResetUnit and RetryUnit are what a bare number of a reset or a retry
	// counts. Without, its size says.
	ResetUnit, RetryUnit time.Duration

	// Scope is what the service documents where its response does not show it.
	Scope Scope

	// Statuses are refusals when they come with a Retry-After or with nothing
	// left, besides those that are so anywhere.
	Statuses []int

	// Apart are the paths whose last segment tells budgets apart that the server
	// calls by one name: /v1/projects/*, where a * is any one segment, is about
	// that and all below it. The first that matches holds.
	Apart []string
}

// A Header is one that the general rules cannot read, or read wrongly.
type Header struct {
	Name string // in lower case; a * at its end stands for anything
	Is   Role
	Form Form

	Of      string        // the limit it belongs to; headers with one Of make one limit
	Unit    Unit          // what the limit counts
	Scope   Scope         // whose it is
	Method  string        // the only method that it counts
	In      time.Duration // what a bare number of a time counts
	Window  time.Duration
	Windows []time.Duration // of the members of a list
	Aligned bool            // the windows begin on the clock, in UTC
}

// Form is how a value is written.
type Form string

const (
	Plain  Form = ""          // a number, or a time
	List   Form = "list"      // one number for each of Windows: 200,2000
	Ratio  Form = "ratio"     // used of allowed, by name: api-usage=18/5000; …
	Named  Form = "named"     // what is left, by name: reads;197,writes;12
	Suffix Form = "suffix"    // the * of the name is the window: 1m
	Usage  Form = "usage"     // JSON with percents: {"call_count":28,…}
	Hertz  Form = "persecond" // a rate
)

// A Refusal says which responses are refusals, or are none, by what their bodies
// say. The first that matches holds.
type Refusal struct {
	Status []int // none: any from 400 on

	// Says is what the body has, one of them: a phrase as it stands, or
	// key=value for a member of JSON, where value may be a range of numbers
	// (4, 80000-80014) or * for any. In asks for them in a header instead.
	Says []string
	In   string
	And  string // a phrase that must be there too

	Scope Scope

	// When it may go on, where no header says so: after Wait, at the next
	// midnight of the time zone Until, after the number of seconds that the JSON
	// member Key has, or that stands in the text after Prose.
	Wait  time.Duration
	Until string
	Key   string
	Prose string

	Spent     bool // what is announced is used up, whatever is left of it
	Lock      bool // another request held a lock: this says nothing about a rate
	Permanent bool // waiting does not help
	Fine      bool // no refusal
	Hint      bool // no refusal, but the wait holds
}

// Check says what is wrong with a dialect that somebody wrote.
func (d *Dialect) Check() error {
	if err := d.check(); err != nil {
		return err
	}
	for n, r := range d.Refusals {
		// A row of ours may take every refusal of a service for one.
		if slices.Contains(r.Says, "") {
			return fmt.Errorf("refusals[%d].says: an empty phrase is in every body", n)
		}
	}
	return nil
}

func (d *Dialect) check() error {
	for n, h := range d.Headers {
		star := strings.IndexByte(h.Name, '*')
		switch {
		case h.Name == "" || h.Name != normal(h.Name):
			return fmt.Errorf("headers[%d].name: %q has to be in lower case, with - for _ and ratelimit for rate-limit", n, h.Name)
		case star >= 0 && star != len(h.Name)-1:
			return fmt.Errorf("headers[%d].name: %q: a * stands at the end", n, h.Name)
		}
		if err := h.check(); err != nil {
			return fmt.Errorf("headers[%d]%w", n, err)
		}
	}
	for n, h := range d.Body {
		if h.Name == "" {
			return fmt.Errorf("body[%d].name: says no key", n)
		}
		if err := h.check(); err != nil {
			return fmt.Errorf("body[%d]%w", n, err)
		}
	}
	for n, path := range d.Apart {
		if err := checkApart(path); err != nil {
			return fmt.Errorf("apart[%d]: %w", n, err)
		}
	}
	for n, r := range d.Refusals {
		if len(r.Says) == 0 {
			return fmt.Errorf("refusals[%d].says: nothing to look for", n)
		}
		if r.Until != "" {
			if _, err := time.LoadLocation(r.Until); err != nil {
				return fmt.Errorf("refusals[%d].until: %w", n, err)
			}
		}
	}
	return nil
}

func (h *Header) check() error {
	switch h.Is {
	case IsLimit, IsRemaining, IsUsed, IsReset, IsNext, IsWindow, IsRate, IsCost, IsRetry, IsLabel:
	default:
		return fmt.Errorf(".is: there is no role %q", h.Is)
	}
	switch h.Form {
	case Plain, List, Ratio, Named, Suffix, Usage, Hertz:
	default:
		return fmt.Errorf(".form: there is no form %q", h.Form)
	}
	if h.Form == List && len(h.Windows) == 0 {
		return errors.New(": a list needs windows")
	}
	return nil
}

// header is what the dialect says of one.
func (d *Dialect) header(name string) *Header {
	for n := range d.Headers {
		h := &d.Headers[n]
		if h.Name == name && name != "" {
			return h
		}
		if start, ok := strings.CutSuffix(h.Name, "*"); ok && strings.HasPrefix(name, start) {
			return h
		}
	}
	return nil
}

// knows says whether the dialect is about a header.
func (d *Dialect) knows(name string) bool {
	f, _ := known.field(name)
	return d.header(f.header) != nil
}

// at says whether the dialect is spoken there.
func (d *Dialect) at(path string) bool {
	for _, start := range d.Paths {
		if strings.HasPrefix(path, start) {
			return true
		}
	}
	return len(d.Paths) == 0
}

// A book finds the dialects of a host.
type book struct {
	hosts     map[string][]*Dialect // :: host, or .example.com for what is below it
	anywhere  []*Dialect
	rows      map[string]row  // :: header → what it is anywhere
	stars     []row           // the same for names that end in *
	headers   map[string]bool // canonical names that the general rules would pass over
	beginning []string        // the same, for names that end in *
}

type row struct {
	dialect *Dialect
	header  *Header
}

// row is what a header is wherever it is met.
func (b *book) row(name string) (*Dialect, *Header) {
	if r, ok := b.rows[name]; ok {
		return r.dialect, r.header
	}
	for _, r := range b.stars {
		if strings.HasPrefix(name, r.header.Name[:len(r.header.Name)-1]) {
			return r.dialect, r.header
		}
	}
	return nil, nil
}

func newBook(rows []Dialect) *book {
	b := &book{hosts: map[string][]*Dialect{}, headers: map[string]bool{}, rows: map[string]row{}}
	for n := range rows {
		d := &rows[n]
		for _, host := range d.Hosts {
			host = strings.TrimPrefix(host, "*")
			b.hosts[host] = append(b.hosts[host], d)
		}
		if len(d.Hosts) == 0 {
			b.anywhere = append(b.anywhere, d)
		}
		for n := range d.Headers {
			h := &d.Headers[n]
			start, star := strings.CutSuffix(h.Name, "*")
			if star {
				b.beginning = append(b.beginning, canonical(start))
			} else {
				b.headers[canonical(h.Name)] = true
			}
			switch {
			case len(d.Hosts) > 0:
			case star:
				b.stars = append(b.stars, row{d, h})
			default:
				b.rows[h.Name] = row{d, h}
			}
		}
	}
	return b
}

// canonical is a name as net/http writes it.
func canonical(name string) string {
	out := []byte(name)
	for n := range out {
		if (n == 0 || out[n-1] == '-') && 'a' <= out[n] && out[n] <= 'z' {
			out[n] -= 'a' - 'A'
		}
	}
	return string(out)
}

// most is how many dialects one host has.
const most = 6

// of are the dialects of a host, the closest first, then those that are spoken
// anywhere.
func (b *book) of(r *Request, found []*Dialect) []*Dialect {
	if r.Dialect != nil && r.Dialect.at(r.Path) {
		found = append(found, r.Dialect)
	}
	var short [longestName]byte
	host := lower(r.Host, short[:0])
	for n := 0; n < len(host); n++ {
		if n > 0 && host[n] != '.' {
			continue
		}
		for _, d := range b.hosts[string(host[n:])] {
			if d.at(r.Path) && len(found) < most {
				found = append(found, d)
			}
		}
	}
	return found
}

// lower is a host in lower case, without its port and the dot of the root.
func lower(host string, into []byte) []byte {
	for n := range len(host) {
		c := host[n]
		if c == ':' && host[0] != '[' {
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		into = append(into, c)
	}
	if n := len(into); n > 0 && into[n-1] == '.' {
		into = into[:n-1]
	}
	return into
}
