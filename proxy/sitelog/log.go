// Package sitelog logs what happens to requests: lines about sites that hold or
// refuse requests, lines about each decision at log level debug, and the counts of the
// summary at the end.
package sitelog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
)

// lookEvery is the time between two looks at the requests that wait, while any do.
const lookEvery = time.Second

// Log writes log lines about sites and counts for the summary. Make it with New; it is safe
// for concurrent use.
type Log struct {
	to       *logrus.Logger
	wake     signal.Signal                          // Run has something to look at
	awake    atomic.Bool                            // Run checks every lookEvery
	refusing atomic.Int64                           // sites that refuse requests
	numbers  atomic.Uint64                          // of requests, for the lines of log level debug
	Named    func() func(site, limit string) string // names limits in lines, with how they became known; nil: by their titles
	Left     LineLimit                              // finds clients of a site that leave at one moment

	mu     sync.Mutex // guards the fields below; nothing is written to the log under it
	sites  siteLines
	counts Summary
	held   map[[2]string]*HeldTime // :: site and limit
}

// Summary counts refusals and waits since the start.
type Summary struct {
	Refusals int                // answers that refused a request because of a limit
	Replayed int                // of these, those whose request was sent again
	Held     []HeldTime         // for what requests were held, the longest in all first
	Outages  map[string]Outages // :: site → its outages that are over
}

// Outages are the times in which a site let no request succeed.
type Outages struct {
	Times  int
	Lasted time.Duration // in all
	Why    string        // how the site failed in the last
}

// String is "1m2s: it answered 503", or "1m2s in all, 3 times; the last: it answered 503".
func (o Outages) String() string {
	times := ": "
	if o.Times > 1 {
		times = fmt.Sprintf(" in all, %d times; the last: ", o.Times)
	}
	return strings.TrimSuffix(InSeconds(o.Lasted)+times+o.Why, ": ")
}

// HeldTime counts the time for which requests were held for one limit of a site.
type HeldTime struct {
	Site, Limit string
	Requests    int           // each counts once, however often it was held
	Total       time.Duration // of all of them
	Longest     time.Duration // of one request, summed over its waits for the limit
}

// mostHeldTimes bounds the limits that are counted separately. Others count as "other".
const mostHeldTimes = 1000

// New makes a Log that writes to a logger. Its lines about sites are written by Run.
func New(to *logrus.Logger) *Log {
	return &Log{to: to, wake: signal.New(), Left: LineLimit{Every: time.Second}, held: map[[2]string]*HeldTime{}, counts: Summary{Outages: map[string]Outages{}}}
}

// Wake makes Run check waiting requests and refusing sites. Run works at every log level:
// only Run writes collected lines and forgets old sites.
func (l *Log) Wake() {
	if !l.awake.Load() {
		l.wake.Send()
	}
}

// Released records that a request's wait for a limit of a site has ended.
func (l *Log) Released(r *Request, site, limit string, waited time.Duration) {
	if waited <= 0 {
		return
	}
	r.Add(limit, waited)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sites.released(now, site, waited, &r.line)
	key := [2]string{site, limit}
	if l.held[key] == nil && len(l.held) >= mostHeldTimes {
		key = [2]string{"other", "other"}
	}
	if l.held[key] == nil {
		l.held[key] = &HeldTime{Site: key[0], Limit: key[1]}
	}
	h := l.held[key]
	h.Total += waited
	if wait := r.wait(limit); wait != nil {
		if !wait.counted {
			wait.counted = true
			h.Requests++
		}
		h.Longest = max(h.Longest, wait.total)
	}
}

// Refused records a refusal.
func (l *Log) Refused(r Refusal) {
	l.mu.Lock()
	l.counts.Refusals++
	if r.Again {
		l.counts.Replayed++
	}
	if l.sites.refused(time.Now(), r) {
		l.refusing.Add(1)
	}
	l.mu.Unlock()
	l.Wake()
}

// Accepted records an answer that is no refusal, with the time its request was sent.
func (l *Log) Accepted(site string, sent time.Time) {
	if l.refusing.Load() == 0 {
		return
	}
	l.mu.Lock()
	if l.sites.accepted(time.Now(), site, sent) {
		l.refusing.Add(-1)
	}
	l.mu.Unlock()
	l.Wake()
}

// Recovered records the end of an outage of a site.
func (l *Log) Recovered(site string, lasted time.Duration, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.counts.Outages[site]; len(l.counts.Outages) < mostHeldTimes {
		l.counts.Outages[site] = Outages{o.Times + 1, o.Lasted + lasted, why}
	}
}

// Run writes lines until ctx is done. It sleeps while no request waits and no site
// refuses any.
func (l *Log) Run(ctx context.Context, gate *queue.Gate) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.sites.finish(time.Now())
			lines := l.sites.take()
			l.mu.Unlock()
			l.write(lines)
			return
		case <-l.wake:
			if !l.awake.Load() {
				l.awake.Store(true)
				tick.Reset(lookEvery)
			}
		case <-tick.C:
		}
		if l.look(gate) {
			continue
		}
		l.awake.Store(false)
		tick.Stop()
		if _, held := gate.Len(); held > 0 { // since the look
			l.Wake()
		}
	}
}

// look writes due lines, and tells whether more may follow soon.
func (l *Log) look(gate *queue.Gate) bool {
	waiting, now := gate.Waiting(), time.Now()
	l.mu.Lock()
	l.sites.waiting(now, waiting)
	l.refusing.Add(-int64(l.sites.pass(now)))
	lines, idle := l.sites.take(), len(l.sites.sites) == 0
	l.mu.Unlock()
	l.write(lines)
	return !idle || len(waiting) > 0
}

func (l *Log) write(lines []siteLine) {
	for _, line := range lines {
		if limit, of := line.fields["limit"].(string); of && l.Named != nil {
			line.text = strings.Replace(line.text, "limit: "+limit, l.Named()(fmt.Sprint(line.fields["site"]), limit), 1)
		}
		if line.last != nil {
			line.text = WithLast(line.text, time.Now(), line.last())
		}
		l.to.WithFields(line.fields).Info(line.text)
	}
}

// Worst returns the level of warnings about a site.
func Worst(p *policy.Policy, site string) logrus.Level {
	if p.OfBrowser(site) {
		return logrus.InfoLevel
	}
	return logrus.WarnLevel
}

// Summary returns the counts of refusals and waits since the start.
func (l *Log) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.counts
	now.Outages = maps.Clone(l.counts.Outages)
	for _, h := range l.held {
		now.Held = append(now.Held, *h)
	}
	slices.SortFunc(now.Held, func(x, y HeldTime) int { return int(y.Total - x.Total) })
	return now
}

// Debugs tells whether debug lines are written. Callers of Decided ask first, to save the
// work of unwritten lines.
func (l *Log) Debugs() bool { return l.to.IsLevelEnabled(logrus.DebugLevel) }

// Decided writes a debug line about a decision. Arguments must contain no path or query of
// a URL and no secret. origin is scheme, host and port.
func (l *Log) Decided(r *Request, method, origin, format string, args ...any) {
	if r.number == 0 {
		r.number = l.numbers.Add(1)
	}
	l.to.Debugf("request %d, %s %s: %s", r.number, method, origin, fmt.Sprintf(format, args...))
}

// Request records one request for the log: its number in debug lines, and its waits in all
// attempts. The zero value is a new request. It is not safe for concurrent use.
type Request struct {
	number uint64 // 0: not assigned yet
	waits  []wait
	line   lineWait
}

// wait is the time for which one limit held the request.
type wait struct {
	limit   string // title
	total   time.Duration
	counted bool // in the HeldTime of the limit
}

// lineWait is the time for which a request was held, for the next log line that counts held
// requests (see siteLines).
type lineWait struct {
	line  uint64 // number of that line, from 1; 0: not counted in a line yet
	total time.Duration
}

// mostWaits bounds the limits of one request that are counted separately.
const mostWaits = 16

// Add counts a wait for a limit, by the limit's title, of a request that no line counts.
func (r *Request) Add(limit string, waited time.Duration) {
	if waited <= 0 {
		return
	}
	if item := r.wait(limit); item != nil {
		item.total += waited
	} else if len(r.waits) < mostWaits {
		r.waits = append(r.waits, wait{limit: limit, total: waited})
	}
}

// wait returns the wait for a limit; nil if that limit did not hold the request.
func (r *Request) wait(limit string) *wait {
	return lists.Find(r.waits, func(w *wait) bool { return w.limit == limit })
}

// Longest is the limit that held the request for longest; "" if none did.
func (r *Request) Longest() string {
	if len(r.waits) == 0 {
		return ""
	}
	return slices.MaxFunc(r.waits, func(a, b wait) int { return cmp.Compare(a.total, b.total) }).limit
}

// maxLines bounds how many lines a LineLimit remembers.
const maxLines = 1000

// LineLimit limits the repetition of log lines of one kind. It is safe for concurrent use.
type LineLimit struct {
	Every time.Duration // minimum time between two lines about the same key

	mu   sync.Mutex
	last *simplelru.LRU[string, time.Time] // :: key → time of the last line, oldest first
}

// Due tells whether a line about key may be written now: the last is at least Every old. It
// returns false while 1,000 other keys have younger lines.
func (l *LineLimit) Due(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, _ = simplelru.NewLRU[string, time.Time](maxLines, nil) // fails for sizes below 1 only
	}
	at, known := l.last.Peek(key)
	if l.last.Len() == maxLines && !known {
		_, at, known = l.last.GetOldest()
	}
	if known && now.Sub(at) < l.Every {
		return false
	}
	l.last.Add(key, now)
	return true
}
