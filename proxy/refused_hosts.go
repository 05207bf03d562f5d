package proxy

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// refusalsKept is how long refusals are counted after the last one.
	refusalsKept = 30 * 24 * time.Hour
	// refusalsInRow is how many connections in a row a client must give up without a
	// word before that counts as a refusal.
	refusalsInRow = 3
	// maxRefusedHosts bounds what is remembered; the least recently used leaves.
	maxRefusedHosts = 4096
)

// unreadPeriods is how long a host passes unread after the first refusal, the second
// and so on; the last holds for all that follow. The first is short, because a program
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
	Since    time.Time `json:"since"` // the last refusal
	Until    time.Time `json:"until"` // the host passes unread before, and is tried again then

	restored bool // the refusal is from before a restart
}

// counts tells whether the refusal still matters.
func (r refusedHost) counts(now time.Time) bool {
	return now.Before(r.Until) || r.Refusals > 0 && now.Before(r.keptUntil())
}

func (r refusedHost) keptUntil() time.Time { return r.Since.Add(refusalsKept) }

// refusedHosts decides for which hosts a client's https is tunnelled because the
// client refuses abide's certificate. It has no lock and no clock.
type refusedHosts struct {
	refused *simplelru.LRU[refusedKey, refusedHost]
	trials  *simplelru.LRU[refusedKey, trial]
}

// trial is what is known of connections that abide has opened.
type trial struct {
	accepted bool // a request has come on one of them
	failed   int  // connections in a row that the client gave up since
}

func newRefusedHosts() *refusedHosts {
	h := &refusedHosts{}
	h.refused, _ = simplelru.NewLRU[refusedKey, refusedHost](maxRefusedHosts, nil) // fails for sizes below 1 only
	h.trials, _ = simplelru.NewLRU[refusedKey, trial](maxRefusedHosts, nil)
	return h
}

// rejected counts a connection that a client did not accept, and answers for how long
// the host passes unread from now on, 0 if this connection changes nothing. certain
// says that the client said why. One such connection is enough, unless a request from
// the same address has come through before: then another program there may lack the
// CA, and several in a row are needed. Connections that were closed without a word
// count only where no request has ever come, for clients also close connections that
// they did not need.
func (h *refusedHosts) rejected(now time.Time, key refusedKey, certain bool) time.Duration {
	old, _ := h.refused.Peek(key)
	if now.Before(old.Until) {
		return 0 // a connection that was opened before
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

// accepted notes a request on a connection that abide has opened: refusals are counted
// from the beginning again. A period that has begun goes on.
func (h *refusedHosts) accepted(key refusedKey) {
	h.trials.Add(key, trial{accepted: true})
	if one, ok := h.refused.Peek(key); ok && one.Refusals > 0 {
		one.Refusals = 0
		h.refused.Add(key, one)
	}
}

// passes is the refusal because of which https of a new connection passes unread.
func (h *refusedHosts) passes(now time.Time, key refusedKey) (refusedHost, bool) {
	one, ok := h.refused.Get(key)
	return one, ok && now.Before(one.Until)
}

// all are the refusals that matter now, the one that was not used for longest first.
func (h *refusedHosts) all(now time.Time) []refusedHost {
	var list []refusedHost
	for _, one := range h.refused.Values() {
		if one.counts(now) {
			list = append(list, one)
		}
	}
	return list
}

// restore takes up a refusal from before a restart. A clock that was set back
// meanwhile does not make it last longer.
func (h *refusedHosts) restore(now time.Time, one refusedHost) {
	if one.Since.After(now) {
		one.Since = now
	}
	if latest := now.Add(unreadPeriods[len(unreadPeriods)-1]); one.Until.After(latest) {
		one.Until = latest
	}
	if one.restored = true; one.counts(now) {
		h.refused.Add(refusedKey{one.Client, one.Host}, one)
	}
}

// forget has every host opened again.
func (h *refusedHosts) forget() {
	h.refused.Purge()
	h.trials.Purge()
}
