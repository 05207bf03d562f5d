package tokens

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/abide-proxy/abide/policy"
)

const (
	slowest = 30 * time.Second // for one exchange
	early   = 5 * time.Minute  // before it expires a credential is renewed, at most
	late    = 10 * time.Second // and not used any more, at most
	least   = 5 * time.Second  // a credential is good for, whatever the server says
	settled = time.Minute      // a credential that is younger is not renewed because it was refused
)

// errands are the exchanges that are on their way, for a pool.
type errands struct {
	client http.Client
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

func newErrands(transport http.RoundTripper) *errands {
	e := &errands{client: http.Client{
		Transport: transport,
		// A redirect would take the secrets elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// run starts one, unless the pool is closed.
func (e *errands) run(errand func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.busy.Go(errand)
	}
	return !e.closed
}

func (e *errands) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.busy.Wait()
}

// exchange gets tokens for id:secret pairs, and new ones before they expire.
type exchange struct {
	config  policy.OAuth2
	host    string
	errands *errands

	mu     sync.Mutex
	grants map[id]*grant
}

// grant is what a pair was exchanged for.
type grant struct {
	style          oauth2.AuthStyle // that the server has understood
	secret         policy.Secret
	since          time.Time
	renew, expires time.Time // zero is never
	flight         *flight   // the exchange that is under way
	failures       int       // in a row
	failed         *ExchangeError
}

// flight is an exchange that several may wait for.
type flight struct {
	done   chan struct{}
	secret policy.Secret
	err    error
}

func newExchange(o policy.OAuth2, e *errands) *exchange {
	x := &exchange{config: o, errands: e, grants: map[id]*grant{}}
	if u, err := url.Parse(o.TokenURL); err == nil {
		x.host = u.Host
	}
	return x
}

func (x *exchange) same(o policy.OAuth2) bool {
	return x.config.TokenURL == o.TokenURL && slices.Equal(x.config.Scopes, o.Scopes)
}

// keep forgets what was exchanged for tokens that are not there any more.
func (x *exchange) keep(tokens []*Token) {
	stay := map[id]bool{}
	for _, t := range tokens {
		stay[t.id] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for who := range x.grants {
		if !stay[who] {
			delete(x.grants, who)
		}
	}
}

// credential is what a token was exchanged for. Who comes while it is still good
// does not wait for the next one.
func (x *exchange) credential(ctx context.Context, t *Token) (policy.Secret, error) {
	if err := ctx.Err(); err != nil {
		return policy.Secret{}, err
	}
	now := time.Now()
	x.mu.Lock()
	g := x.grants[t.id]
	if g == nil {
		g = &grant{}
		x.grants[t.id] = g
	}
	secret := g.secret
	good := !secret.Empty() && (g.expires.IsZero() || now.Before(g.expires))
	if good && (g.renew.IsZero() || now.Before(g.renew)) {
		x.mu.Unlock()
		return secret, nil
	}
	f := g.flight
	if f == nil {
		if g.failed != nil && now.Before(g.failed.RetryAt) {
			err := g.failed
			x.mu.Unlock()
			if good {
				return secret, nil
			}
			return policy.Secret{}, err
		}
		f = &flight{done: make(chan struct{})}
		style := g.style
		if !x.errands.run(func() { x.fly(t, g, f, style) }) {
			x.mu.Unlock()
			return policy.Secret{}, &ExchangeError{Label: t.label, Host: x.host, RetryAt: now.Add(time.Second)}
		}
		g.flight = f
	}
	x.mu.Unlock()
	if good {
		return secret, nil
	}
	select {
	case <-f.done:
		return f.secret, f.err
	case <-ctx.Done():
		return policy.Secret{}, ctx.Err()
	}
}

// drop forgets a credential that a site has refused.
func (x *exchange) drop(now time.Time, t *Token, refused policy.Secret) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.grants[t.id]
	if g == nil || g.secret != refused {
		return true // there is another one already
	}
	if now.Sub(g.since) < settled {
		return false
	}
	g.secret = policy.Secret{}
	return true
}

// fly is one exchange. It takes longer than some who wait for it do.
func (x *exchange) fly(t *Token, g *grant, f *flight, style oauth2.AuthStyle) {
	ctx, cancel := context.WithTimeout(x.errands.ctx, slowest)
	defer cancel()
	sent := time.Now()
	got, used, err := x.ask(ctx, t, style)
	now := time.Now()

	x.mu.Lock()
	defer x.mu.Unlock()
	defer close(f.done)
	g.flight = nil
	if err != nil {
		g.failures++
		g.failed = x.failure(now, t.label, err, g.failures)
		f.err = g.failed
		return
	}
	g.style, g.failures, g.failed = used, 0, nil
	g.secret, g.since, g.renew, g.expires = policy.NewSecret(got.AccessToken), now, time.Time{}, time.Time{}
	if !got.Expiry.IsZero() {
		life := max(got.Expiry.Sub(now), least)
		end := sent.Add(life) // it counts from when the server wrote it
		g.renew, g.expires = end.Add(-min(early, life/5)), end.Add(-min(late, life/20))
	}
	f.secret = g.secret
}

// ask asks the server, in the way that it understands: most want the pair as Basic
// credentials, some in the form.
func (x *exchange) ask(ctx context.Context, t *Token, style oauth2.AuthStyle) (*oauth2.Token, oauth2.AuthStyle, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &x.errands.client)
	id, secret, _ := strings.Cut(t.secret.Reveal(), ":")
	one := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: x.config.TokenURL, Scopes: x.config.Scopes, AuthStyle: style}
	if style == oauth2.AuthStyleAutoDetect {
		one.AuthStyle = oauth2.AuthStyleInHeader
	}
	got, err := one.Token(ctx)
	var said *oauth2.RetrieveError
	if style == oauth2.AuthStyleAutoDetect && errors.As(err, &said) && (said.Response.StatusCode == http.StatusBadRequest || said.Response.StatusCode == http.StatusUnauthorized) {
		one.AuthStyle = oauth2.AuthStyleInParams
		got, err = one.Token(ctx)
	}
	if err == nil && malformed(got.AccessToken) != nil {
		err = errMalformed
	}
	return got, one.AuthStyle, err
}
