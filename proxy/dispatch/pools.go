package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/tokens"
)

// pools are the tokens that a configuration names, by the name of their pool. A
// pool outlives the reload that leaves it, with all that is known of its tokens.
type pools map[string]*tokens.Pool

// status returns the states of all pools, in order of their names.
func (p pools) status(now time.Time) []status.Pool {
	return lists.Map(slices.Sorted(maps.Keys(p)), func(name string) status.Pool { return p[name].Status(now) })
}

// find adds the states of tokens, to be stored across restarts.
func (p pools) find(now time.Time, to sites.Found) {
	for name, pool := range p {
		if value, err := json.Marshal(pool.SavedStates(now)); err == nil {
			to.Add(name, value, now.Add(tokenStateLife))
		}
	}
}

// close ends pools that the newer ones do not have.
func (p pools) close(newer pools) {
	for name, pool := range p {
		if newer[name] != pool {
			pool.Close()
		}
	}
}

// kindOfToken is the kind of documents about the tokens of a pool.
const kindOfToken = "token"

// tokenStateLife is the time that the state of a token counts after it was written.
const tokenStateLife = 30 * 24 * time.Hour

// tokenPatience bounds the time of the sources of tokens at a start or a reload.
const tokenPatience = 30 * time.Second

// poolLoader makes pools.
type poolLoader struct {
	read        func(context.Context, *policy.Policy, tokens.Surroundings) (map[string]*tokens.Loaded, error)
	lookup      func(name string) (string, bool) // the environment; nil is an empty one
	transport   http.RoundTripper                // exchanges client credentials
	persistence *sites.Persistence               // of the states of tokens
	clock       clock.Clock
	log         *logrus.Logger
}

// load reads the tokens of all pools, before anything is changed: a source that
// cannot be read leaves the old configuration as it is. Sources that are servers are asked
// through the outbound of the configuration that is loaded.
func (l *poolLoader) load(ctx context.Context, p *policy.Policy, by *outbound) (map[string]*tokens.Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	return l.read(ctx, p, tokens.Surroundings{Lookup: l.lookup, Transport: credentialTransport(func() *outbound { return by })})
}

// take gives pools what was loaded, and returns what that has changed of the tokens of each. Pools that the old
// configuration had stay.
func (l *poolLoader) take(p *policy.Policy, loaded map[string]*tokens.Loaded, old pools) (pools, map[string]policy.TokenChange, error) {
	next, now, changes := pools{}, l.clock.Now(), map[string]policy.TokenChange{}
	for i := range p.Pools {
		config := p.Pools[i]
		from := loaded[config.Name]
		for _, w := range from.Warnings {
			l.log.WithField("reason", w.Text).Warn(w.Error())
		}
		if pool := old[config.Name]; pool != nil {
			change, err := pool.Reload(now, config, from)
			if err != nil {
				return nil, nil, err
			}
			if len(change.Added)+len(change.Removed) > 0 {
				l.log.Infof("the pool %s: tokens added: %s; removed: %s", config.Name, cmp.Or(strings.Join(change.Added, ", "), "none"), cmp.Or(strings.Join(change.Removed, ", "), "none"))
			}
			next[config.Name], changes[config.Name] = pool, change
			continue
		}
		pool, err := tokens.New(now, config, from, l.transport)
		if err != nil {
			return nil, nil, err
		}
		l.restore(pool, now)
		labels := lists.Map(pool.Set().Tokens(), (*tokens.Token).Label)
		next[config.Name], changes[config.Name] = pool, policy.TokenChange{Added: labels, Now: len(labels)}
	}
	return next, changes, nil
}

// restore gives the tokens of a new pool their saved states.
func (l *poolLoader) restore(pool *tokens.Pool, now time.Time) {
	var known []tokens.SavedState
	if value := l.persistence.Take(kindOfToken, pool.Name()); value != nil && json.Unmarshal(value, &known) == nil {
		pool.Restore(now, known)
		pool.TryAgain(now)
	}
}

// ReadTokens reads the tokens of all pools of a configuration without putting the
// configuration into force.
func ReadTokens(ctx context.Context, p *policy.Policy, lookup func(name string) (string, bool)) (map[string]*tokens.Loaded, error) {
	out, err := (&configuration{name: newPseudonym()}).newOutbound(p)
	if err != nil {
		return nil, err
	}
	defer out.upstream.CloseIdle()
	return (&poolLoader{read: tokens.LoadAll, lookup: lookup}).load(ctx, p, out)
}

// credentialTransport sends abide's own requests for credentials, by the egress rules of the
// outbound that it returns. No limit holds for such requests.
type credentialTransport func() *outbound

// RoundTrip sends a request for a credential, if the egress rules let it.
func (t credentialTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	by := t()
	if err == nil {
		err = by.mayForward(to)
	}
	if err != nil {
		return nil, err
	}
	return by.upstream.RoundTrip(r)
}

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
	gate        *queue.Gate
	persistence *sites.Persistence
	log         *logrus.Logger
	published   map[string]uint64 // :: pool → its version that was published; of the goroutine that calls publish
}

// pools returns the pools of the configuration that holds.
func (n *sharedTokens) pools() pools { return n.config.current.Load().pools }

// change disables or enables a token for the operator. Enabling ends a quarantine, too.
func (n *sharedTokens) change(pool, label string, enable bool) error {
	p := n.pools()[pool]
	if p == nil {
		return status.Missing("there is no such pool")
	}
	level, done, why := logrus.WarnLevel, "disabled", "by the operator"
	if enable {
		level, done, why = logrus.InfoLevel, "enabled", ""
	}
	given, err := p.Switch(label, why)
	if err != nil {
		return err
	}
	n.log.WithField("token", label).Logf(level, "the token %s of %s is %s by the operator", label, pool, done)
	n.switched(p.Find(label), enable)
	saved := make(chan error, 1)
	go func() { saved <- n.persistence.Save(context.Background(), documentPatience, false) }() // a store may commit both at once
	err = n.publishSwitches(context.Background(), p, given)
	return status.Kept(errors.Join(err, <-saved)) // publish and persistence try again what fails
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

// put writes a document about a token; a nil value removes the document.
func (n *sharedTokens) put(ctx context.Context, kind string, pool *tokens.Pool, token string, value any, until time.Time) (err error) {
	var text []byte
	if value != nil {
		if text, err = json.Marshal(value); err != nil {
			return err
		}
	}
	within, cancel := context.WithTimeout(ctx, documentPatience)
	defer cancel()
	return n.documents.Put(within, kind, pool.Name()+store.Separator+token, text, until)
}

// publishSwitches publishes that the operator has disabled or enabled tokens of a pool in
// this process. It does so without other instances, too: the next process must not read
// older documents.
func (n *sharedTokens) publishSwitches(ctx context.Context, pool *tokens.Pool, list ...tokens.Switch) (err error) {
	for _, one := range list {
		if n.documents == nil {
			break
		}
		err = errors.Join(err, n.put(ctx, kindOfSwitch, pool, one.Token, one, time.Now().Add(switchLife)))
		if one.Disabled == "" {
			err = errors.Join(err, n.put(ctx, kindOfQuarantine, pool, one.Token, nil, time.Time{}))
		}
	}
	return err
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
		now, err := time.Now(), n.publishSwitches(ctx, pool, pool.Switches()...)
		for _, m := range pool.SavedStates(now) {
			if m.Quarantined.After(now) {
				err = errors.Join(err, n.put(ctx, kindOfQuarantine, pool, m.Token, m, m.Quarantined))
			}
		}
		if err == nil {
			n.published[name] = v
		}
	}
}

// read applies what other instances have published.
func (n *sharedTokens) read(ctx context.Context) {
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
		_ = n.put(ctx, kindOfSwitch, pool, later.Token, later, time.Now().Add(switchLife))
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
