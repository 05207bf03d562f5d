package proxy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
)

// distrustSilence is for how long the log does not repeat that a client does not trust the
// CA.
const distrustSilence = 10 * time.Minute

// kindOfRefusedHost is the kind of documents about refusedHosts.
const kindOfRefusedHost = "refused-host"

// certificateRefusals keeps which clients refused a certificate of abide's CA for which
// hosts, so that their https to these hosts passes unread, and logs refusals.
type certificateRefusals struct {
	log         *logrus.Logger
	persistence *sites.Persistence // nil before keep, or where nothing is kept

	mu    sync.Mutex
	hosts *refusedHosts

	// Each kind of line has limits of its own: many lines of one kind must not silence
	// another kind.
	refusedLines, restoredLines, distrustLines, doubtLines sitelog.LineLimit
}

func newCertificateRefusals(log *logrus.Logger) *certificateRefusals {
	return &certificateRefusals{
		log: log, hosts: newRefusedHosts(),
		refusedLines: sitelog.LineLimit{Every: distrustSilence}, restoredLines: sitelog.LineLimit{Every: refusalsKept},
		distrustLines: sitelog.LineLimit{Every: distrustSilence}, doubtLines: sitelog.LineLimit{Every: distrustSilence},
	}
}

// keyOf is the key of a client's refusal for a host.
func keyOf(addr netip.Addr, client *dispatch.Client, host string) refusedKey {
	if client != nil {
		return refusedKey{client.Name, host}
	}
	return refusedKey{addr.String(), host}
}

// rejected notes that a client closed an intercepted connection to a host: certain says that
// a TLS alert named the certificate. Other clients close without one, as Node does in the
// middle of the handshake, and wget after the handshake.
func (c *certificateRefusals) rejected(p *policy.Policy, addr netip.Addr, client *dispatch.Client, to policy.Target, certain bool) {
	now := time.Now()
	// Where a rule needs to see the requests, https never passes unread: the client would
	// get around the rule.
	needed := p.Interception(to.Host, to.Port, true).Needed
	var period time.Duration // for which https of the host passes unread
	if !needed {
		c.mu.Lock()
		period = c.hosts.rejected(now, keyOf(addr, client, to.Host), certain)
		c.mu.Unlock()
	}
	if period > 0 {
		c.persistence.Urge()
	}
	switch {
	case period > 0:
		if c.refusedLines.Due(addr.String()+" "+to.Host+" "+period.String(), now) {
			c.log.Warnf("the client at %s does not accept the certificate of abide's CA for %s: its https to this host passes unread for %s, then abide tries again, so limits there are not seen meanwhile; %s", addr, to.Host, inWords(period), p.TrustRemedy())
		}
	case certain && needed:
		if c.distrustLines.Due(addr.String(), now) {
			c.log.Warnf("the client at %s does not trust abide's CA, so it cannot reach %s: %s", addr, to.Host, p.TrustRemedy())
		}
	case !certain:
		if c.doubtLines.Due(addr.String(), now) {
			c.log.Warnf("the client at %s opened TLS to %s and closed it without a request: if it complains about the certificate, %s", addr, to.Host, p.TrustRemedy())
		}
	}
}

// inWords is a duration of whole minutes or hours.
func inWords(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	if d%time.Hour == 0 {
		n, unit = int(d/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// accepted notes the first request on an intercepted connection.
func (c *certificateRefusals) accepted(key refusedKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts.accepted(key)
}

// current returns the refusal because of which a client's https to a host passes unread, and
// whether there is one.
func (c *certificateRefusals) current(key refusedKey) (refusedHost, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts.passes(time.Now(), key)
}

// passes tells whether a client's https to a host passes unread because of a refusal. It
// logs that the refusal is from before a restart.
func (c *certificateRefusals) passes(key refusedKey) bool {
	refusal, passes := c.current(key)
	if passes && refusal.restored && c.restoredLines.Due(key.client+" "+key.host, time.Now()) {
		c.log.Warnf("https of the client %s to %s passes unread until %s, so limits there are not seen: the client did not accept the certificate of abide's CA before the restart; then abide tries again",
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

// keep restores the refusals from before a restart, and has later ones kept in p.
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

// find adds the documents that are to be kept.
func (c *certificateRefusals) find(now time.Time, to sites.Found) {
	c.mu.Lock()
	all := c.hosts.all(now)
	c.mu.Unlock()
	for _, refusal := range all {
		if value, err := json.Marshal(refusal); err == nil {
			to.Add(refusal.Client+store.Separator+refusal.Host, value, refusal.keptUntil())
		}
	}
}
