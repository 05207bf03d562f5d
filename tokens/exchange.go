package tokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/policy"
)

const (
	exchangeTimeout = 30 * time.Second // bounds one exchange
	renewBefore     = 5 * time.Minute  // a credential is renewed this long before its expiry, at most
	unusableBefore  = 10 * time.Second // a credential is not used this long before its expiry, at most
	shortestLife    = 5 * time.Second  // lower bound of a credential's lifetime, whatever the server says
	minRenewAge     = time.Minute      // a younger credential is not renewed because a site refused it
)

// exchanges are those of a pool that run, and what sends them. They are safe for concurrent use.
type exchanges struct {
	background.Tasks
	client http.Client
}

func newExchanges(transport http.RoundTripper) *exchanges {
	return &exchanges{client: http.Client{
		Transport: transport,
		// A redirect would send the secrets to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// exchange gets OAuth2 access tokens for id:secret pairs, and renews them before they
// expire. It is safe for concurrent use.
type exchange struct {
	config  policy.OAuth2
	host    string
	running *exchanges

	mu     sync.Mutex
	grants map[id]*grant
}

// grant is the access token that a pair was exchanged for.
type grant struct {
	style          oauth2.AuthStyle // how the server takes the pair: as Basic credentials or in the form
	secret         policy.Secret
	since          time.Time        // when the access token was issued
	renew, expires time.Time        // when to renew, and when it expires; zero: never
	pending        *pendingExchange // the running exchange; nil: none
	failures       int              // failed exchanges in a row
	lastError      *ExchangeError
}

// pendingExchange is a running exchange. Several requests may wait for its end.
type pendingExchange struct {
	done   chan struct{}
	secret policy.Secret
	err    error
}

// retain forgets the grants of all tokens but these.
func (x *exchange) retain(tokens []*Token) {
	stay := map[id]bool{}
	for _, t := range tokens {
		stay[t.id] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.grants, func(key id, _ *grant) bool { return !stay[key] })
}

// credential returns the access token of a pool's token. It waits for an exchange only if
// no valid access token exists.
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
	f := g.pending
	if f == nil {
		if g.lastError != nil && now.Before(g.lastError.RetryAt) {
			err := g.lastError
			x.mu.Unlock()
			if good {
				return secret, nil
			}
			return policy.Secret{}, err
		}
		f = &pendingExchange{done: make(chan struct{})}
		style := g.style
		running, ok := x.running.Begin()
		if !ok {
			x.mu.Unlock()
			return policy.Secret{}, &ExchangeError{Label: t.shown, Host: x.host, RetryAt: now.Add(time.Second)}
		}
		g.pending = f
		go func() {
			defer x.running.Done()
			x.perform(running, t, g, f, style)
		}()
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

// invalidate forgets an access token that a site has refused. It tells whether credential
// may return another one.
func (x *exchange) invalidate(now time.Time, t *Token, refused policy.Secret) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.grants[t.id]
	if g == nil || g.secret != refused {
		return true // it was renewed already
	}
	if now.Sub(g.since) < minRenewAge {
		return false
	}
	g.secret = policy.Secret{}
	return true
}

// perform runs one exchange and publishes its result. Requests whose context ends do not
// wait for it.
func (x *exchange) perform(ctx context.Context, t *Token, g *grant, f *pendingExchange, style oauth2.AuthStyle) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	sent := time.Now()
	got, used, err := x.request(ctx, t, style)
	now := time.Now()

	x.mu.Lock()
	defer x.mu.Unlock()
	defer close(f.done)
	g.pending = nil
	if err != nil {
		g.failures++
		g.lastError = x.failure(now, t.shown, err, g.failures)
		f.err = g.lastError
		return
	}
	g.style, g.failures, g.lastError = used, 0, nil
	g.secret, g.since, g.renew, g.expires = policy.NewSecret(got.AccessToken), now, time.Time{}, time.Time{}
	if !got.Expiry.IsZero() {
		life := max(got.Expiry.Sub(now), shortestLife)
		end := sent.Add(life) // the lifetime counts from the time of the request
		g.renew, g.expires = end.Add(-min(renewBefore, life/5)), end.Add(-min(unusableBefore, life/20))
	}
	f.secret = g.secret
}

// request asks the server for an access token, first with the pair as Basic credentials,
// then in the form, until the server's style is known.
func (x *exchange) request(ctx context.Context, t *Token, style oauth2.AuthStyle) (*oauth2.Token, oauth2.AuthStyle, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &x.running.client)
	id, secret, _ := strings.Cut(t.secret.Reveal(), ":")
	config := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: x.config.TokenURL, Scopes: x.config.Scopes, AuthStyle: style}
	if style == oauth2.AuthStyleAutoDetect {
		config.AuthStyle = oauth2.AuthStyleInHeader
	}
	got, err := config.Token(ctx)
	var response *oauth2.RetrieveError
	if style == oauth2.AuthStyleAutoDetect && errors.As(err, &response) && (response.Response.StatusCode == http.StatusBadRequest || response.Response.StatusCode == http.StatusUnauthorized) {
		config.AuthStyle = oauth2.AuthStyleInParams
		got, err = config.Token(ctx)
	}
	if err == nil && secretFault(got.AccessToken) != nil {
		err = errMalformed
	}
	return got, config.AuthStyle, err
}

// ExchangeError tells why a pair could not be exchanged for an access token. It contains
// neither the pair nor text of the server.
type ExchangeError struct {
	Label string // of the token
	Host  string // of the server

	Status   int       // HTTP status; 0: no answer
	Code     string    // error code of RFC 6749; "" if the server sent none of these
	Rejected bool      // the server does not accept the pair; waiting does not help
	TimedOut bool      // the server did not answer in time
	RetryAt  time.Time // when the next exchange is tried
}

func (e *ExchangeError) Error() string {
	why := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	switch {
	case e.TimedOut:
		why = fmt.Sprintf("no answer within %s", exchangeTimeout)
	case e.Status == 0:
		why = "no connection"
	case e.Status < 300 && e.Code == "":
		why = "the answer has no token"
	}
	return strings.TrimSuffix(fmt.Sprintf("exchanging the credentials of %s at %s: %s %s", e.Label, e.Host, why, e.Code), " ")
}

var errMalformed = errors.New("the answer has no token that could be sent")

// codes are the error codes of RFC 6749; true: the pair was rejected. Any other text of a
// server may contain the secret and is not shown.
var codes = map[string]bool{
	"invalid_request": false, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "server_error": false, "temporarily_unavailable": false,
	"access_denied": true,
}

// failure makes an ExchangeError of an error. row is the number of failures in a row.
func (x *exchange) failure(now time.Time, label string, err error, row int) *ExchangeError {
	e := &ExchangeError{Label: label, Host: x.host}
	wait := time.Second << min(row-1, 6)
	var response *oauth2.RetrieveError
	switch {
	case errors.As(err, &response):
		e.Status = response.Response.StatusCode
		rejects, known := codes[response.ErrorCode]
		if known {
			e.Code = response.ErrorCode
		}
		e.Rejected = rejects || e.Status == http.StatusUnauthorized
		wait = max(wait, retryAfter(response.Response.Header.Get("Retry-After"), now))
	case errors.Is(err, context.DeadlineExceeded):
		e.TimedOut = true
	case errors.Is(err, errMalformed), strings.HasPrefix(err.Error(), "oauth2: "):
		e.Status = http.StatusOK
	}
	e.RetryAt = now.Add(wait)
	return e
}

// retryAfter reads a Retry-After header: seconds or a date, at most one hour.
func retryAfter(after string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if n, err := strconv.ParseUint(after, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
