package proxy

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// refusalsKept is the time after the last refusal until refusals are no longer counted.
	refusalsKept = 30 * 24 * time.Hour
	// refusalsInRow is the number of connections in a row that a client must not accept before
	// its https is tunnelled.
	refusalsInRow = 3
	// comesBack is the time in which a client that was told to ignore certificates accepts a
	// connection after it has refused one with a TLS alert. Chromium refuses each connection once.
	comesBack = 3 * time.Second
	// unusedNear is the time around a connection without a request in which a request on another
	// one says that the client did not need the first: some programs open several and use one.
	unusedNear = 2 * time.Second
	// maxProduct bounds the bytes that are kept of a User-Agent.
	maxProduct = 32
	// maxRefusedHosts bounds the stored refusals; the least recently used is removed.
	maxRefusedHosts = 4096
	// distrustSilence is the time during which the log does not repeat that a client does not
	// trust the CA.
	distrustSilence = 10 * time.Minute
	// kindOfRefusedHost is the kind of stored documents with a refusedHost.
	kindOfRefusedHost = "refused-host"
)

// unreadPeriods are the times for which the https of a host is tunnelled after the first
// refusal, the second and so on; the last is for all that follow. The first is short, because
// a program that lacks the CA shares its address with crawlers that trust it. The last covers
// a job that runs once a day.
var unreadPeriods = [...]time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour, 36 * time.Hour}

// certificateRefusals records which clients refused a certificate of abide's CA for which
// hosts, so that their https to these hosts is tunnelled, and logs refusals.
type certificateRefusals struct {
	log         *logrus.Logger
	persistence *sites.Persistence // nil before keep, or where nothing is stored

	mu    sync.Mutex
	hosts *refusedHosts

	// Each kind of line has limits of its own: many lines of one kind must not silence
	// another kind.
	refusedLines, restoredLines, distrustLines, doubtLines sitelog.LineLimit

	unused sitelog.LineLimit // connections without a request of which doubt is called
}

func newCertificateRefusals(log *logrus.Logger) *certificateRefusals {
	return &certificateRefusals{
		log: log, hosts: newRefusedHosts(),
		refusedLines: sitelog.LineLimit{Every: distrustSilence}, restoredLines: sitelog.LineLimit{Every: refusalsKept},
		distrustLines: sitelog.LineLimit{Every: distrustSilence}, doubtLines: sitelog.LineLimit{Every: distrustSilence}, unused: sitelog.LineLimit{Every: unusedNear},
	}
}

// keyOf is the key of a client's refusal for a host.
func keyOf(addr netip.Addr, client *dispatch.Client, host string) refusedKey {
	if client != nil {
		return refusedKey{client: client.Name, host: host}
	}
	return refusedKey{client: addr.String(), host: host}
}

// identify adds the program to the key of a connection: a client may be a machine with several
// programs, of which one trusts the CA and another does not. Finding a program takes some milliseconds, so this is
// done only until the client has accepted a connection, and for hosts that one of its programs has refused.
// Where the operating system does not say which program it is, userAgent of the CONNECT does.
func (c *certificateRefusals) identify(conn net.Conn, key refusedKey, userAgent string) refusedKey {
	c.mu.Lock()
	search := c.hosts.inDoubt(key)
	c.mu.Unlock()
	if !search {
		return key
	}
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	to, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	if from.IsValid() && to.IsValid() && (from.Addr().IsLoopback() || from.Addr() == to.Addr()) {
		key.program = localProgram(from, to)
	}
	if key.program == "" {
		product, _, _ := strings.Cut(userAgent, "/")
		key.program = product[:min(len(product), maxProduct)]
	}
	return key
}

// rejected notes that a client closed an intercepted connection to a host, which began at a
// time: certain says that a TLS alert named the certificate. Other clients close without one,
// as Node does in the middle of the handshake, and wget after the handshake.
func (c *certificateRefusals) rejected(p *policy.Policy, addr netip.Addr, key refusedKey, to policy.Target, began time.Time, certain bool) {
	now, counts := time.Now(), certain && !p.OfBrowser(to.Host)
	// Where a rule needs to see the requests, https is never tunnelled: the client would get
	// around the rule.
	needed := p.Interception(to.Host, to.Port, true).Needed
	var period time.Duration // for which https of the host is tunnelled
	c.mu.Lock()
	if n, _ := c.hosts.alerts.Peek(key); counts {
		c.hosts.alerts.Add(key, n+1)
	}
	if !needed {
		period = c.hosts.rejected(now, began, key, certain)
	}
	c.mu.Unlock()
	entry := c.entry(p, key, to)
	switch {
	case period > 0:
		c.refused(p, addr, key, to, period)
	case certain && needed:
		if c.distrustLines.Due(addr.String(), now) {
			entry.Warnf("the client at %s does not trust abide's CA, so it cannot reach %s: %s", addr, to.Host, p.TrustRemedy())
		}
	case certain:
		if !c.doubtLines.Due(addr.String()+" "+to.Host, now) {
			break // a browser that ignores certificates refuses each connection once
		}
		entry.Infof("the client at %s did not accept the certificate of abide's CA for %s: if it accepts none within %s, its https to this host passes unread", addr, to.Host, comesBack)
	default:
		if c.unused.Due(key.client+" "+key.program+" "+key.host, now) {
			time.AfterFunc(unusedNear, func() { c.doubt(p, addr, key, to, began) })
		}
	}
}

// doubt logs that a client has closed a connection, which began at a time, without a request,
// unless requests came on others.
func (c *certificateRefusals) doubt(p *policy.Policy, addr netip.Addr, key refusedKey, to policy.Target, began time.Time) {
	c.mu.Lock()
	trusts := c.hosts.acceptedSince(began.Add(-unusedNear), key)
	c.mu.Unlock()
	if !trusts && c.doubtLines.Due(addr.String(), time.Now()) {
		c.entry(p, key, to).Logf(sitelog.Worst(p, to.Host), "the client at %s opened TLS to %s and closed it without a request: if it complains about the certificate, %s", addr, to.Host, p.TrustRemedy())
	}
}

// refused notes that https of a host is tunnelled from now on.
func (c *certificateRefusals) refused(p *policy.Policy, addr netip.Addr, key refusedKey, to policy.Target, period time.Duration) {
	c.persistence.Urge()
	if c.refusedLines.Due(addr.String()+" "+key.program+" "+to.Host+" "+period.String(), time.Now()) {
		c.entry(p, key, to).Logf(sitelog.Worst(p, to.Host), "the client at %s does not accept the certificate of abide's CA for %s: its https to this host passes unread for %s, then abide tries again, so limits there are not seen meanwhile; %s", addr, to.Host, inWords(period), p.TrustRemedy())
	}
}

// entry is a line of the log about a client, and about its program where that is known.
func (c *certificateRefusals) entry(p *policy.Policy, key refusedKey, to policy.Target) *logrus.Entry {
	fields := logrus.Fields{"client": key.client, "site": p.Match(to).Site}
	if key.program != "" {
		fields["program"] = key.program
	}
	return c.log.WithFields(fields)
}

// inWords formats a duration of whole minutes or hours: 1 hour.
func inWords(d time.Duration) string {
	if d%time.Hour == 0 {
		return status.Number(int(d/time.Hour), "hour", "hours")
	}
	return status.Number(int(d/time.Minute), "minute", "minutes")
}

// accepted notes the first request on an intercepted connection.
func (c *certificateRefusals) accepted(key refusedKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts.accepted(time.Now(), key)
}

// count returns the number of TLS alerts by which clients refused a certificate, but for those of a program that has
// accepted one of the same host later.
func (c *certificateRefusals) count() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, alerts := range c.hosts.alerts.Values() {
		n += alerts
	}
	return n
}

// current returns the refusal because of which a client's https to a host is tunnelled. ok is
// false if there is none, or if one of the client's programs accepts connections to the host.
func (c *certificateRefusals) current(client, host string) (refusal refusedHost, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts.ofClient(time.Now(), client, host)
}

// passes reports whether a client's https to a host is tunnelled because of a refusal. It
// logs that the refusal is from before a restart.
func (c *certificateRefusals) passes(p *policy.Policy, addr netip.Addr, key refusedKey, to policy.Target) bool {
	now := time.Now()
	c.mu.Lock()
	period := c.hosts.stayedAway(now, key)
	refusal, passes := c.hosts.passes(now, key)
	c.mu.Unlock()
	if period > 0 {
		c.refused(p, addr, key, to, period)
	}
	if passes && refusal.restored && c.restoredLines.Due(key.client+" "+key.program+" "+key.host, now) {
		c.entry(p, key, to).Logf(sitelog.Worst(p, to.Host), "https of the client %s to %s passes unread until %s, so limits there are not seen: the client did not accept the certificate of abide's CA before the restart; then abide tries again",
			key.client, key.host, refusal.Until.Local().Format(time.DateTime))
	}
	return passes
}

// forget removes all refusals.
func (c *certificateRefusals) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts.forget()
}

// keep restores the refusals from before a restart, and has p store later ones.
func (c *certificateRefusals) keep(p *sites.Persistence) {
	c.persistence = p
	now := time.Now()
	for _, value := range p.TakeAll(kindOfRefusedHost) {
		var refusal refusedHost
		if json.Unmarshal(value, &refusal) == nil {
			c.hosts.restore(now, refusal)
		}
	}
	p.Add(sites.Source{Kind: kindOfRefusedHost, Urgent: true, Remove: true, Find: c.find})
}

// find adds the documents that are to be stored.
func (c *certificateRefusals) find(now time.Time, to sites.Found) {
	c.mu.Lock()
	all := c.hosts.all(now)
	c.mu.Unlock()
	for _, refusal := range all {
		if value, err := json.Marshal(refusal); err == nil {
			to.Add(refusal.Client+store.Separator+refusal.Host+store.Separator+refusal.Program, value, refusal.expires())
		}
	}
}

// refusedKey is a host for one client: its name where clients authenticate, else its
// address, and the program there, where that was looked for and is known. A client or program that lacks
// the CA must not close a host for others.
type refusedKey struct{ client, host, program string }

// refusedHost is a host whose https a client does not let abide open.
type refusedHost struct {
	Client string `json:"client"`
	Host   string `json:"host"`
	// Program is the client's program, "" where it is not known.
	Program string `json:"program,omitempty"`
	// Refusals counts the refusals without an accepted connection in between.
	Refusals int       `json:"refusals"`
	Since    time.Time `json:"since"` // time of the last refusal
	Until    time.Time `json:"until"` // https is tunnelled until then, and is opened again after

	restored bool // the refusal is older than the process
}

// counts reports whether the refusal has an effect now, or on the next refusal.
func (r refusedHost) counts(now time.Time) bool {
	return now.Before(r.Until) || r.Refusals > 0 && now.Before(r.expires())
}

func (r refusedHost) expires() time.Time { return r.Since.Add(refusalsKept) }

// refusedHosts decides for which hosts a client's https is tunnelled because the client
// refuses abide's certificate. It has no lock and reads no clock.
type refusedHosts struct {
	refused *simplelru.LRU[refusedKey, refusedHost]
	trials  *simplelru.LRU[refusedKey, trial]
	doubts  *simplelru.LRU[refusedKey, struct{}] // without programs: one of the client's has refused the host
	alerts  *simplelru.LRU[refusedKey, int64]    // since the program accepted a connection to the host
}

// trial counts a client's intercepted connections to a host.
type trial struct {
	accepted time.Time // when the first request of a connection last came; zero: none has
	failed   int       // number of connections in a row without a request since
	alert    bool      // a TLS alert has ended one of these
	first    time.Time // end of the first of these
	last     time.Time // end of the last of these
}

func newRefusedHosts() *refusedHosts {
	h := &refusedHosts{}
	h.refused, _ = simplelru.NewLRU[refusedKey, refusedHost](maxRefusedHosts, nil) // fails for sizes below 1 only
	h.trials, _ = simplelru.NewLRU[refusedKey, trial](maxRefusedHosts, nil)
	h.doubts, _ = simplelru.NewLRU[refusedKey, struct{}](maxRefusedHosts, nil)
	h.alerts, _ = simplelru.NewLRU[refusedKey, int64](maxRefusedHosts, nil)
	return h
}

// inDoubt reports whether it matters which program of a client connects to a host: the client has
// accepted no connection to any host, or a program of the client has refused one to this host.
func (h *refusedHosts) inDoubt(key refusedKey) bool {
	_, trusts := h.trials.Get(refusedKey{client: key.client})
	_, refused := h.doubts.Get(refusedKey{client: key.client, host: key.host})
	return refused || !trusts
}

// rejected counts a connection that a client did not accept, which began at a time. It returns
// the time for which https of the host is tunnelled from now on, 0 if this connection changes
// nothing. certain says that a TLS alert named the certificate. Connections that began before
// the end of the last one that counts are the same refusal. Where a request of the client has come
// before, connections that were closed without an alert do not count: clients also close
// connections that they did not need.
func (h *refusedHosts) rejected(now, began time.Time, key refusedKey, certain bool) time.Duration {
	h.doubts.Add(refusedKey{client: key.client, host: key.host}, struct{}{})
	old, _ := h.refused.Peek(key)
	t, _ := h.trials.Get(key)
	if now.Before(old.Until) || began.Before(t.last) || !t.accepted.IsZero() && !certain {
		return 0
	}
	if t.failed == 0 {
		t.first = now
	}
	t.failed, t.last, t.alert = t.failed+1, now, t.alert || certain
	if !old.counts(now) && (t.failed < refusalsInRow || t.alert && now.Sub(t.first) < comesBack) {
		h.trials.Add(key, t)
		return 0
	}
	return h.refuse(now, key)
}

// stayedAway is called at the begin of a connection. If the client has refused one with an alert
// and has accepted none in the time after that, its https is tunnelled: it returns for how long.
func (h *refusedHosts) stayedAway(now time.Time, key refusedKey) time.Duration {
	if t, _ := h.trials.Peek(key); !t.accepted.IsZero() || !t.alert || now.Sub(t.first) < comesBack {
		return 0
	}
	return h.refuse(now, key)
}

// refuse begins the time for which https of a host is tunnelled, and returns it.
func (h *refusedHosts) refuse(now time.Time, key refusedKey) time.Duration {
	h.trials.Remove(key)
	refusals := 1
	if old, _ := h.refused.Peek(key); old.counts(now) {
		refusals += old.Refusals
	}
	period := unreadPeriods[min(refusals, len(unreadPeriods))-1]
	h.refused.Add(key, refusedHost{Client: key.client, Host: key.host, Program: key.program, Refusals: refusals, Since: now, Until: now.Add(period)})
	return period
}

// accepted notes a request on an intercepted connection: refusals are counted from 0 again.
// A period that has begun goes on.
func (h *refusedHosts) accepted(now time.Time, key refusedKey) {
	h.trials.Add(key, trial{accepted: now})
	h.trials.Add(refusedKey{client: key.client}, trial{accepted: now})
	h.alerts.Remove(key)
	h.alerts.Remove(refusedKey{client: key.client, host: key.host}) // before the program mattered
	if refusal, ok := h.refused.Peek(key); ok && refusal.Refusals > 0 {
		refusal.Refusals = 0
		h.refused.Add(key, refusal)
	}
}

// acceptedSince reports whether a request to a host has come since a time on another connection
// of the same program, or of one that is not known.
func (h *refusedHosts) acceptedSince(since time.Time, key refusedKey) bool {
	return slices.ContainsFunc(h.trials.Keys(), func(other refusedKey) bool {
		t, _ := h.trials.Peek(other)
		return other.client == key.client && other.host == key.host && t.accepted.After(since) &&
			(other.program == key.program || other.program == "" || key.program == "")
	})
}

// passes returns the refusal because of which https of a new connection is tunnelled. ok is
// false if there is none.
func (h *refusedHosts) passes(now time.Time, key refusedKey) (refusal refusedHost, ok bool) {
	refusal, ok = h.refused.Get(key)
	return refusal, ok && now.Before(refusal.Until)
}

// ofClient returns the refusal of one of a client's programs because of which https of new connections is
// tunnelled. ok is false if there is none, or if requests of another program have come through.
func (h *refusedHosts) ofClient(now time.Time, client, host string) (refusal refusedHost, ok bool) {
	if h.acceptedSince(time.Time{}, refusedKey{client: client, host: host}) {
		return refusedHost{}, false
	}
	for _, one := range h.refused.Values() {
		if one.Client == client && one.Host == host && now.Before(one.Until) && one.Until.After(refusal.Until) {
			refusal, ok = one, true
		}
	}
	return refusal, ok
}

// all returns the refusals that count now, least recently used first.
func (h *refusedHosts) all(now time.Time) []refusedHost {
	return slices.DeleteFunc(h.refused.Values(), func(r refusedHost) bool { return !r.counts(now) })
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
		h.refused.Add(refusedKey{refusal.Client, refusal.Host, refusal.Program}, refusal)
		h.doubts.Add(refusedKey{client: refusal.Client, host: refusal.Host}, struct{}{})
	}
}

// forget removes all refusals.
func (h *refusedHosts) forget() {
	h.refused.Purge()
	h.trials.Purge()
	h.doubts.Purge()
}
