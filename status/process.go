package status

import (
	"io"
	"slices"
	"strings"
	"time"
)

// Check is one condition of readiness. OK and Degraded means that it works, but not
// completely.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Degraded bool   `json:"degraded,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// Word is the state as a word. A degraded process still serves: if all instances share a
// store that is away, no instance would be left otherwise.
func (c Check) Word() string {
	switch {
	case !c.OK:
		return "not ready"
	case c.Degraded:
		return "degraded"
	}
	return "ok"
}

// mostDescribed bounds the sites that the status for people lists; abide sites lists them all.
const mostDescribed = 10

// Process is the answer of /api/v1/status, and the data of the dashboard. If you add a
// field, also describe it in docs/operating.md.
type Process struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	Started time.Time `json:"started"`
	Uptime  float64   `json:"uptime_seconds"`
	Ready   bool      `json:"ready"`
	Checks  []Check   `json:"checks"`
	Listen  string    `json:"listen"`
	// ListenOpen is the address of the listener that opens all https, "" if there is none.
	ListenOpen string `json:"listen_open,omitempty"`
	Admin      string `json:"admin"`
	CA         *CA    `json:"ca"`
	// Connections is nil where nobody counts them.
	Connections *Connections `json:"connections,omitempty"`
	// Sites are those with the most bytes; SiteCount counts all.
	Sites     []Counts `json:"sites"`
	SiteCount int      `json:"site_count"`
	Total     Counts   `json:"total"`
	Rate      Rate     `json:"rate"` // of all sites
	Failures           // since the start
	// Unread is nil where no https has passed unread.
	Unread *Unread `json:"https_unread,omitempty"`
	// Breakers are those that are not closed, at most as many as sites.
	Breakers []Breaker `json:"breakers,omitempty"`
	// Paused are the sites that the operator has paused, at most as many as sites.
	Paused []SitePause `json:"paused,omitempty"`
	// Cooldowns are long pauses after refusals, at most as many as sites.
	Cooldowns []Cooldown `json:"cooldowns,omitempty"`
	// Adaptive are the adaptive limits with their present rates, at most as many as sites.
	Adaptive []Adaptive `json:"adaptive,omitempty"`
	// Waiting is nil where nobody knows what waits.
	Waiting *Waits `json:"waiting,omitempty"`
	// Store is nil where nothing keeps budgets.
	Store *Store `json:"store,omitempty"`
	// Reload is the last reload, where it was refused; nil where it was not.
	Reload *RefusedReload `json:"refused_reload,omitempty"`
}

// Describe writes the state of the process as text, without what is wrong (Troubles). Control characters are removed, so that
// they cannot change a terminal.
func (s Process) Describe(w io.Writer) {
	state := "not ready"
	if s.Ready {
		state = "ready"
	} else if slices.ContainsFunc(s.Checks, func(c Check) bool { return c.Name == Draining }) {
		state = Draining
	}
	up := DurationOf(s.Uptime).Truncate(time.Second)
	say(w, "%s at %s: %s, up %v", strings.TrimSpace("abide "+s.Version), s.Listen, state, up)
	if s.Connections != nil && s.Connections.Clients+s.Connections.Tunnels > 0 {
		say(w, "%s, %s", Number(s.Connections.Clients, "client connection", "client connections"), Number(s.Connections.Tunnels, "tunnel", "tunnels"))
	}
	say(w, "%s to %s; %s received, %s sent", Number(int(s.Total.Requests), "request", "requests"), Number(s.SiteCount, "site", "sites"), Size(s.Total.In), Size(s.Total.Out))
}

// Connections counts what is open: connections of clients, and the tunnels among
// them.
type Connections struct {
	Clients int `json:"clients"`
	Tunnels int `json:"tunnels"`
}

type CA struct {
	Subject  string    `json:"subject"`
	SHA256   string    `json:"sha256"`
	NotAfter time.Time `json:"not_after"`
	AnyName  bool      `json:"any_name"`
	Names    []string  `json:"names"`
}

// Live is the event "now" of /api/v1/events: the numbers that change most.
type Live struct {
	Time time.Time `json:"time"`
	Rate
	Waiting int `json:"waiting"` // requests
	// Longest is the longest time that a waiting request has waited.
	Longest float64 `json:"longest_wait_seconds"`
}

// Problem is an error in the form of RFC 9457, with the faults of a configuration or of
// limits set at run time.
type Problem struct {
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
}

// RefusedReload is a configuration that was refused, because of its faults or because it
// needs a restart. The previous one stays in use.
type RefusedReload struct {
	Since  time.Time `json:"since"` // the first refusal after the last reload that succeeded
	Error  string    `json:"error"` // of the last refusal, in one line
	Faults []Fault   `json:"faults,omitempty"`
}

// Fault is one fault of a configuration, or of limits set at run time.
type Fault struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// Reloaded is the answer of a successful reload.
type Reloaded struct {
	Reloaded bool     `json:"reloaded"`
	Changes  []string `json:"changes"`
}

// DescribeAdaptive writes the rates that adaptive limits have come to, for people.
func (s Process) DescribeAdaptive(w io.Writer) {
	t := Table{Numbers: []int{2}}
	t.Add("SITE", "LIMIT", "NOW")
	for _, one := range s.Adaptive {
		t.Add(one.Site, NameOf(one.Limit, one.Of), RateText(one.Rate))
	}
	t.below(w, "adaptive limits", 0, "")
}
