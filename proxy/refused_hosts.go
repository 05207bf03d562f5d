package proxy

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// refusalsKept is how long refusals are counted after the last one.
	refusalsKept = 30 * 24 * time.Hour
	// refusalsInRow is how many connections in a row a client must close without a TLS
	// alert before that counts as a refusal.
	refusalsInRow = 3
	// maxRefusedHosts bounds the refusals that are kept; the least recently used is removed.
	maxRefusedHosts = 4096
)

// unreadPeriods is for how long the https of a host passes unread after the first refusal,
// the second and so on; the last is for all that follow. The first is short, because a program
// that lacks the CA shares its address with crawlers that trust it. The last covers a
// job that runs once a day.
var unreadPeriods = [...]time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour, 36 * time.Hour}

// refusedKey is a host for one client: its name where clients authenticate, else its
// address. A client that lacks the CA must not close a host for other clients.
type refusedKey struct{ client, host string }

// refusedHost is a host whose https a client does not let abide open.
type refusedHost struct {
	Client string `json:"client"`
	Host   string `json:"host"`
	// Refusals is how many there were without an accepted connection in between.
	Refusals int       `json:"refusals"`
	Since    time.Time `json:"since"` // time of the last refusal
	Until    time.Time `json:"until"` // https passes unread until then, and is opened again after

	restored bool // the refusal is older than the process
}

// counts tells whether the refusal has an effect now, or on the next refusal.
func (r refusedHost) counts(now time.Time) bool {
	return now.Before(r.Until) || r.Refusals > 0 && now.Before(r.keptUntil())
}

func (r refusedHost) keptUntil() time.Time { return r.Since.Add(refusalsKept) }

// refusedHosts decides for which hosts a client's https is tunnelled because the client
// refuses abide's certificate. It has no lock and reads no clock.
type refusedHosts struct {
	refused *simplelru.LRU[refusedKey, refusedHost]
	trials  *simplelru.LRU[refusedKey, trial]
}

// trial counts a client's intercepted connections to a host.
type trial struct {
	accepted bool // a request has come on a connection
	failed   int  // number of connections in a row without a request since
}

func newRefusedHosts() *refusedHosts {
	h := &refusedHosts{}
	h.refused, _ = simplelru.NewLRU[refusedKey, refusedHost](maxRefusedHosts, nil) // fails for sizes below 1 only
	h.trials, _ = simplelru.NewLRU[refusedKey, trial](maxRefusedHosts, nil)
	return h
}

// rejected counts a connection that a client did not accept. It returns for how long https
// of the host passes unread from now on, 0 if this connection changes nothing. certain says
// that a TLS alert named the certificate. One such connection is enough, unless a request of
// the same client has come before: then another program at the same address may lack the CA,
// and refusalsInRow are needed. Connections that were closed without an alert count only
// where no request has ever come, because clients also close connections that they did not
// need.
func (h *refusedHosts) rejected(now time.Time, key refusedKey, certain bool) time.Duration {
	old, _ := h.refused.Peek(key)
	if now.Before(old.Until) {
		return 0 // the connection was opened before the refusal
	}
	t, _ := h.trials.Get(key)
	switch {
	case t.accepted && !certain:
		return 0
	case t.accepted || !certain:
		t.failed++
	default:
		t.failed = refusalsInRow
	}
	if t.failed < refusalsInRow {
		h.trials.Add(key, t)
		return 0
	}
	h.trials.Remove(key)
	refusals := 1
	if old.counts(now) {
		refusals += old.Refusals
	}
	period := unreadPeriods[min(refusals, len(unreadPeriods))-1]
	h.refused.Add(key, refusedHost{Client: key.client, Host: key.host, Refusals: refusals, Since: now, Until: now.Add(period)})
	return period
}

// accepted notes a request on an intercepted connection: refusals are counted from 0 again.
// A period that has begun goes on.
func (h *refusedHosts) accepted(key refusedKey) {
	h.trials.Add(key, trial{accepted: true})
	if refusal, ok := h.refused.Peek(key); ok && refusal.Refusals > 0 {
		refusal.Refusals = 0
		h.refused.Add(key, refusal)
	}
}

// passes returns the refusal because of which https of a new connection passes unread, and
// whether there is one.
func (h *refusedHosts) passes(now time.Time, key refusedKey) (refusedHost, bool) {
	refusal, ok := h.refused.Get(key)
	return refusal, ok && now.Before(refusal.Until)
}

// all are the refusals that count now, least recently used first.
func (h *refusedHosts) all(now time.Time) []refusedHost {
	var list []refusedHost
	for _, refusal := range h.refused.Values() {
		if refusal.counts(now) {
			list = append(list, refusal)
		}
	}
	return list
}

// restore adds a refusal from before a restart. A clock that was set back meanwhile does not
// make the refusal last longer.
func (h *refusedHosts) restore(now time.Time, refusal refusedHost) {
	if refusal.Since.After(now) {
		refusal.Since = now
	}
	if latest := now.Add(unreadPeriods[len(unreadPeriods)-1]); refusal.Until.After(latest) {
		refusal.Until = latest
	}
	if refusal.restored = true; refusal.counts(now) {
		h.refused.Add(refusedKey{refusal.Client, refusal.Host}, refusal)
	}
}

// forget removes all refusals.
func (h *refusedHosts) forget() {
	h.refused.Purge()
	h.trials.Purge()
}
