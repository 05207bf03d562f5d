package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/tokens"
)

// errNoPool is the error for a name that no pool has.
var errNoPool = errors.New("there is no such pool")

// pools are the tokens that a configuration names, by the name of their pool. A
// pool outlives the reload that leaves it, with all that is known of its tokens.
type pools map[string]*tokens.Pool

// status returns the states of all pools, in order of their names.
func (p pools) status(now time.Time) (list []status.Pool) {
	for _, pool := range p {
		list = append(list, pool.Status(now))
	}
	slices.SortFunc(list, func(a, b status.Pool) int { return strings.Compare(a.Name, b.Name) })
	return list
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

// take gives pools what was loaded. Those that the old configuration had stay.
func (l *poolLoader) take(p *policy.Policy, loaded map[string]*tokens.Loaded, old pools) (pools, error) {
	next, now := pools{}, l.clock.Now()
	for i := range p.Pools {
		config := p.Pools[i]
		from := loaded[config.Name]
		for _, w := range from.Warnings {
			l.log.WithField("reason", w.Text).Warn(w.String())
		}
		if pool := old[config.Name]; pool != nil {
			change, err := pool.Reload(now, config, from)
			if err != nil {
				return nil, err
			}
			if len(change.Added)+len(change.Removed) > 0 {
				l.log.Infof("the pool %s: tokens added: %s; removed: %s", config.Name, listOf(change.Added), listOf(change.Removed))
			}
			next[config.Name] = pool
			continue
		}
		pool, err := tokens.New(now, config, from, l.transport)
		if err != nil {
			return nil, err
		}
		l.restore(pool, now)
		next[config.Name] = pool
	}
	return next, nil
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

func listOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
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
