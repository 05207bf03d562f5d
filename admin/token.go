package admin

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/throttle"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

// guard asks for admin.token, and slows down whoever has a wrong one.
type guard struct {
	policy  func() *policy.Policy
	metrics *metrics.Metrics
	log     *logrus.Logger
	wrong   *throttle.Guard // wrong tokens
}

func newGuard(p func() *policy.Policy, m *metrics.Metrics, log *logrus.Logger) *guard {
	g := &guard{policy: p, metrics: m, log: log}
	g.wrong = throttle.New(g.refusedTokens)
	return g
}

// authorised lets in whoever has the token, or where none is set whoever is on
// this machine and was not sent by a web page.
func (g *guard) authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admin := g.policy().Admin
		switch {
		case !admin.Token.Empty():
			if !g.hasToken(w, r, admin.Token) {
				return
			}
		case beyondLoopback(admin.Listen):
			refuse(w, http.StatusForbidden, "this listener is not on loopback, so admin.token must be set")
			return
		case rebound(r.Host, admin.Listen):
			refuse(w, http.StatusForbidden, "the Host header names none of this listener's addresses; set admin.token to use other names")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mayKnow tells whether somebody to whom a route is open anyway may ask for
// everything. A token that is not right is refused here too, or it could be
// guessed without being slowed down: ok is false, and the request answered.
func (g *guard) mayKnow(w http.ResponseWriter, r *http.Request) (all, ok bool) {
	admin := g.policy().Admin
	switch {
	case admin.Token.Empty():
		return !beyondLoopback(admin.Listen) && !rebound(r.Host, admin.Listen), true
	case len(r.Header["Authorization"]) == 0:
		return false, true
	}
	ok = g.hasToken(w, r, admin.Token)
	return ok, ok
}

// hasToken answers the request itself when it does not.
func (g *guard) hasToken(w http.ResponseWriter, r *http.Request, token policy.Secret) bool {
	presented, ok := presentedToken(r)
	if !ok {
		challenge(w)
		return false
	}
	if token.Equal(presented) {
		return true
	}
	g.metrics.WrongSecret("admin")
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // none is an address too
	g.wrong.Wrong(r.Context(), at.Addr().Unmap().WithZone(""))
	challenge(w)
	return false
}

// refusedTokens is for the log.
func (g *guard) refusedTokens(from netip.Addr, wrong int) {
	g.log.WithField("client", from).Warnf("the admin listener refused a wrong token from %s: %d since the last such line", from, wrong)
}

func challenge(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Bearer realm="abide"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="abide", charset="UTF-8"`)
	refuse(w, http.StatusUnauthorized, "admin.token is needed, as a bearer token or as a password")
}

// presentedToken returns the token of the one Authorization header.
func presentedToken(r *http.Request) (string, bool) {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return "", false
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password, password != ""
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
