package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/tokens"
)

// The kinds of documents about tokens. They are about no single site.
const (
	kindOfQuarantine = "quarantine"
	kindOfSwitch     = "token switch"
)

// switchLife is the time after which a document about a disabled or enabled token is removed.
const switchLife = 365 * 24 * time.Hour

// sharedTokens publishes to the instances of a fleet which tokens a server does not accept,
// and which tokens the operator has disabled or enabled. It applies what the others publish.
type sharedTokens struct {
	documents   store.Documents // nil: nothing is published
	config      *configuration  // has the pools
	together    func() bool     // tells whether other instances use the documents
	gate        *queue.Gate
	persistence *sites.Persistence
	log         *logrus.Logger
	published   map[string]uint64 // :: pool → its version that was published; of the goroutine that calls publish
}

// pools returns the pools of the configuration that holds.
func (n *sharedTokens) pools() pools { return n.config.current.Load().pools }

// change disables or enables a token for the operator. Enabling ends a quarantine, too.
func (n *sharedTokens) change(pool, label string, enable bool) error {
	p, log := n.pools()[pool], n.log.WithField("token", label)
	if p == nil {
		return errNoPool
	}
	if enable {
		if err := p.Enable(label); err != nil {
			return err
		}
		log.Infof("the token %s of %s is enabled by the operator", label, pool)
	} else {
		if err := p.Disable(label, ""); err != nil {
			return err
		}
		log.Warnf("the token %s of %s is disabled by the operator", label, pool)
	}
	n.publishSwitches(context.Background(), p) // publish tries again what fails here
	n.switched(p.Find(label), enable)
	return nil
}

// switched makes a change of the operator to a token hold; a nil token is one that no pool has any
// more.
func (n *sharedTokens) switched(t *tokens.Token, enabled bool) {
	if enabled && t != nil {
		n.gate.EndCooldowns(scopeOfToken(t))
	}
	n.persistence.Urge()
	n.config.replan()
}

// put writes a document about a token; a nil value removes the document. It reports success.
func (n *sharedTokens) put(ctx context.Context, kind string, pool *tokens.Pool, token string, value any, until time.Time) bool {
	var text []byte
	if value != nil {
		var err error
		if text, err = json.Marshal(value); err != nil {
			return false
		}
	}
	within, cancel := context.WithTimeout(ctx, readSoon)
	defer cancel()
	return n.documents.Put(within, kind, pool.Name()+store.Separator+token, text, until) == nil
}

// publishSwitches publishes which tokens of a pool the operator has disabled or enabled in
// this process. It does so without other instances, too: the next process must not read
// older documents. It is false if a document could not be written.
func (n *sharedTokens) publishSwitches(ctx context.Context, pool *tokens.Pool) bool {
	if n.documents == nil {
		return true
	}
	well, until := true, time.Now().Add(switchLife)
	for _, one := range pool.Switches() {
		well = n.put(ctx, kindOfSwitch, pool, one.Token, one, until) && well
		if one.Disabled == "" {
			well = n.put(ctx, kindOfQuarantine, pool, one.Token, nil, time.Time{}) && well
		}
	}
	return well
}

// publish publishes the tokens of pools that have changed. Without other instances it
// forgets which versions it has published.
func (n *sharedTokens) publish(ctx context.Context, together bool) {
	if !together || n.documents == nil {
		clear(n.published)
		return
	}
	for name, pool := range n.pools() {
		v := pool.Version()
		if v == n.published[name] {
			continue
		}
		now, well := time.Now(), n.publishSwitches(ctx, pool)
		for _, m := range pool.SavedStates(now) {
			if m.Quarantined.After(now) {
				well = n.put(ctx, kindOfQuarantine, pool, m.Token, m, m.Quarantined) && well
			}
		}
		if well {
			n.published[name] = v
		}
	}
}

// read applies what other instances have published.
func (n *sharedTokens) read(ctx context.Context) {
	if !n.together() {
		return
	}
	if err := readTokens(ctx, n, kindOfSwitch, n.applySwitch); err != nil && ctx.Err() == nil {
		n.log.WithField("reason", err).Warnf("the tokens that the operator has disabled in other instances cannot be read: %v", err)
	}
	if err := readTokens(ctx, n, kindOfQuarantine, n.applyQuarantine); err != nil && ctx.Err() == nil {
		n.log.WithField("reason", err).Warnf("the tokens that other instances have put away cannot be read: %v", err)
	}
}

// readTokens reads the documents of a kind, and applies each.
func readTokens[T any](ctx context.Context, n *sharedTokens, kind string, apply func(ctx context.Context, pool *tokens.Pool, value T)) error {
	within, cancel := context.WithTimeout(ctx, documentPatience)
	defer cancel()
	documents, err := n.documents.All(within, kind)
	if err != nil {
		return err
	}
	for key, text := range documents {
		name, _, _ := strings.Cut(key, store.Separator)
		pool := n.pools()[name]
		var value T
		if pool != nil && json.Unmarshal(text, &value) == nil {
			apply(ctx, pool, value)
		}
	}
	return nil
}

// applyQuarantine puts a token away that another instance has put away.
func (n *sharedTokens) applyQuarantine(_ context.Context, pool *tokens.Pool, m tokens.SavedState) {
	if t := pool.ApplyQuarantine(time.Now(), m); t != nil {
		n.log.WithField("token", t.Label()).Warnf("the token %s of %s is put away until %s: another instance was told that it is not accepted", t.Label(), pool.Name(), m.Quarantined.Format(time.RFC3339))
		putAway(n.gate, t, pool.Availability(time.Now(), t, "").Site, m.Quarantined)
	}
}

// applySwitch disables or enables a token as the operator did in another instance.
func (n *sharedTokens) applySwitch(ctx context.Context, pool *tokens.Pool, o tokens.Switch) {
	t, later := pool.ApplySwitch(time.Now(), o)
	if later != nil { // two instances wrote at once, and the older switch was written last
		n.put(ctx, kindOfSwitch, pool, later.Token, later, time.Now().Add(switchLife))
	}
	if t != nil {
		done := "disabled"
		if o.Disabled == "" {
			done = "enabled"
		}
		n.log.WithField("token", t.Label()).Warnf("the token %s of %s is %s: the operator told another instance so", t.Label(), pool.Name(), done)
		n.switched(t, o.Disabled == "")
	}
}
