package store

import "time"

// History is what was counted in one or more minutes.
type History struct {
	Traffic []Traffic
	Usage   []Usage
	Blocked []Blocked
}

// Empty tells whether nothing was counted.
func (h *History) Empty() bool { return len(h.Traffic)+len(h.Usage)+len(h.Blocked) == 0 }

// Usage is what became of the requests of one client to one site, of one priority and with
// one token, in one minute or in one step of a query.
type Usage struct {
	UsageKey
	Minute   time.Time // start
	Requests int64     // that were answered or given up
	Refusals int64     // answers that refused a request because of a limit
	Waited   time.Duration
	In, Out  int64 // bytes of the bodies from the site and to it
}

// UsageKey is whose requests are counted together.
type UsageKey struct {
	Site, Client string
	Priority     int
	Token        string // label; "": without a token
}

// Blocked is how long a limit of a site held requests in one minute, or in one step of a
// query.
type Blocked struct {
	Site, Limit string
	Minute      time.Time     // start
	Held        time.Duration // times requests: three for two seconds are six
	Busy        time.Duration // in which any request was held
}
