package proxy

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// refusedFor is how long a refusal counts after the client's last connection to the
	// host: long enough for a job that runs once a day.
	refusedFor = 36 * time.Hour
	// refusedAtMost is when a host is tried again although the client goes on using it,
	// because somebody may have made the client trust the CA meanwhile.
	refusedAtMost = 30 * 24 * time.Hour
	// refusalsInRow is how many connections in a row a client must give up without a
	// word before that counts as a refusal.
	refusalsInRow = 3
	// maxRefusedHosts bounds what is remembered; the least recently used leaves.
	maxRefusedHosts = 4096
)

// refusedKey is a host for one client: its name where clients authenticate, else its
// address. A client that lacks the CA must not close a host for other clients.
type refusedKey struct{ client, host string }

// refusedHost is a host whose https a client does not let abide open.
type refusedHost struct {
	Client string    `json:"client"`
	Host   string    `json:"host"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

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

// rejected counts a connection that a client did not accept, and answers whether the
// host passes unread from now on. certain says that the client said why. One such
// connection is enough, unless a request from the same address has come through
// before: then another program there may lack the CA, and several in a row are
// needed. Connections that were closed without a word count only where no request
// has ever come, for clients also close connections that they did not need.
func (h *refusedHosts) rejected(now time.Time, key refusedKey, certain bool) bool {
	if old, ok := h.refused.Peek(key); ok && now.Before(old.Until) {
		return false // a connection that was opened before
	}
	t, _ := h.trials.Get(key)
	switch {
	case t.accepted && !certain:
		return false
	case t.accepted || !certain:
		t.failed++
	default:
		t.failed = refusalsInRow
	}
	if t.failed < refusalsInRow {
		h.trials.Add(key, t)
		return false
	}
	h.trials.Remove(key)
	h.refused.Add(key, refusedHost{Client: key.client, Host: key.host, Since: now, Until: now.Add(refusedFor)})
	return true
}

// accepted notes a request on a connection that abide has opened.
func (h *refusedHosts) accepted(key refusedKey) { h.trials.Add(key, trial{accepted: true}) }

// passes tells whether https of a new connection passes unread because the client has
// refused it. It lengthens the time for which the refusal counts.
func (h *refusedHosts) passes(now time.Time, key refusedKey) bool {
	one, ok := h.refused.Get(key)
	if !ok {
		return false
	}
	if !now.Before(one.Until) {
		h.refused.Remove(key)
		return false
	}
	until := now.Add(refusedFor)
	if last := one.Since.Add(refusedAtMost); until.After(last) {
		until = last
	}
	// In steps of an hour, so that not every connection has it written down again.
	if until.Sub(one.Until) >= time.Hour {
		one.Until = until
		h.refused.Add(key, one)
	}
	return true
}

// all are the refusals that count now, the one that was not used for longest first.
func (h *refusedHosts) all(now time.Time) []refusedHost {
	var list []refusedHost
	for _, one := range h.refused.Values() {
		if now.Before(one.Until) {
			list = append(list, one)
		}
	}
	return list
}

// restore takes up a refusal from before a restart. A clock that was set back
// meanwhile does not make it last longer.
func (h *refusedHosts) restore(now time.Time, one refusedHost) {
	if latest := now.Add(refusedFor); one.Until.After(latest) {
		one.Until = latest
	}
	if now.Before(one.Until) {
		h.refused.Add(refusedKey{one.Client, one.Host}, one)
	}
}

// forget has every host opened again.
func (h *refusedHosts) forget() {
	h.refused.Purge()
	h.trials.Purge()
}
