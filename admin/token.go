package admin

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// authorised lets in whoever has the token, or where none is set whoever is on
// this machine and was not sent by a web page.
func (d *desk) authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admin := d.Policy().Admin
		switch {
		case !admin.Token.Empty():
			if !d.hasToken(w, r, admin.Token) {
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
func (d *desk) mayKnow(w http.ResponseWriter, r *http.Request) (all, ok bool) {
	admin := d.Policy().Admin
	switch {
	case admin.Token.Empty():
		return !beyondLoopback(admin.Listen) && !rebound(r.Host, admin.Listen), true
	case len(r.Header["Authorization"]) == 0:
		return false, true
	}
	ok = d.hasToken(w, r, admin.Token)
	return ok, ok
}

// hasToken answers the request itself when it does not.
func (d *desk) hasToken(w http.ResponseWriter, r *http.Request, token policy.Secret) bool {
	presented, ok := presentedToken(r)
	if !ok {
		challenge(w)
		return false
	}
	if token.Equal(presented) {
		return true
	}
	d.Metrics.WrongSecret("admin")
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // none is an address too
	d.wrong.Wrong(r.Context(), at.Addr().Unmap().WithZone(""))
	challenge(w)
	return false
}

// refusedTokens is for the log.
func (d *desk) refusedTokens(from netip.Addr, wrong int) {
	d.Log.Warnf("the admin listener refused a wrong token from %s: %d since the last such line", from, wrong)
}

func challenge(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Bearer realm="abide"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="abide", charset="UTF-8"`)
	refuse(w, http.StatusUnauthorized, "admin.token is needed, as a bearer token or as a password")
}

// presentedToken is what the one Authorization header says.
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
