package store

import "time"

// RowKind says what a Row counts.
type RowKind int

// The kinds of rows.
const (
	TrafficRows RowKind = iota // the bytes and requests of a site
	UsageRows                  // the requests of one client to one site, of one priority and with one token
	BlockedRows                // the time for which a limit of a site held requests
	FailedRows                 // the requests to a site that failed in one way

	Kinds // the number of kinds
)

// History has the rows of one or more minutes, those of each kind apart.
type History [Kinds][]Row

// Len returns the number of rows.
func (h *History) Len() (n int) {
	for _, rows := range h {
		n += len(rows)
	}
	return n
}

// Empty tells whether nothing was counted.
func (h *History) Empty() bool { return h.Len() == 0 }

// Add adds the rows of another History.
func (h *History) Add(more History) {
	for k, rows := range more {
		h[k] = append(h[k], rows...)
	}
}

// Row counts something in one minute, or in one step of a query. Each kind sets its own fields.
type Row struct {
	Site     string
	Client   string
	Priority int
	Token    string // label; "": without a token
	Limit    string
	What     string // how requests failed: the status of the answer, such as "402", or the reason of an answer of abide itself

	Minute   time.Time // start
	Requests int64     // of UsageRows: that were answered or given up
	Refusals int64     // answers that refused a request because of a limit
	In, Out  int64     // bytes from the site and to it, of UsageRows those of the bodies
	Waited   time.Duration
	Held     time.Duration // times requests: three for two seconds are six
	Busy     time.Duration // in which any request was held
}

// Key names the rows of a kind that are counted together.
type Key struct {
	Site, Client, Token, Limit, What string
	Priority                         int
}

// Key names the row.
func (r *Row) Key() Key { return Key{r.Site, r.Client, r.Token, r.Limit, r.What, r.Priority} }

// Add adds the counts of another row.
func (r *Row) Add(more *Row) {
	r.Requests, r.Refusals, r.In, r.Out = r.Requests+more.Requests, r.Refusals+more.Refusals, r.In+more.In, r.Out+more.Out
	r.Waited, r.Held, r.Busy = r.Waited+more.Waited, r.Held+more.Held, r.Busy+more.Busy
}

// Retention says for how long traffic is stored per minute, then per hour, then per day,
// each back from now. For one hour or day about Sites sites are stored separately; the sum
// of all others has the name Others.
//
// While a file is larger than Bytes, the times are halved until it is small enough. No
// other data is dropped for this reason.
type Retention struct {
	Minutes, Hours, Days time.Duration
	Sites                int
	Bytes                int64
}

// maxHalvings bounds how often the times of a Retention are halved.
const maxHalvings = 10

// halved returns the Retention with its times halved that often.
func (r Retention) halved(times int) Retention {
	r.Minutes = max(r.Minutes>>times, time.Hour)
	r.Hours, r.Days = r.Hours>>times, r.Days>>times
	return r
}

// Others is the name of all sites that are not stored separately.
const Others = "other"

// usualRetention is that of each file, but in tests.
var usualRetention = Retention{Minutes: 48 * time.Hour, Hours: 60 * 24 * time.Hour, Days: 5 * 365 * 24 * time.Hour, Sites: 10_000, Bytes: 256 << 20}

// Lengths of the steps of traffic, in seconds. Days are UTC days.
const (
	minutes = int64(60)
	hours   = 60 * minutes
	days    = 24 * hours
)

// rollUpStep describes a roll-up: traffic of step from that began before a time is added to
// step into, or dropped.
type rollUpStep struct {
	from, into int64 // in seconds; 0: dropped
	before     int64 // seconds since 1970, a multiple of into, so that no step is rolled up partly
}

// rollUps lists the roll-ups that are due. Traffic that they leave is within the Retention,
// or older by less than one larger step.
func (r Retention) rollUps(now time.Time) []rollUpStep {
	edge := func(keep time.Duration, step int64) int64 {
		return floor(now.Add(-keep).Unix(), step)
	}
	minutesEnd := edge(r.Minutes, hours)
	hoursEnd := min(edge(r.Hours, days), floor(minutesEnd, days))
	return []rollUpStep{
		{minutes, hours, minutesEnd},
		{hours, days, hoursEnd},
		{days, 0, min(edge(r.Days, days), hoursEnd)},
	}
}

func floor(t, step int64) int64 { return t - (t%step+step)%step }
