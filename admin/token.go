package admin

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
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
	wrong   *throttle.Guard // wrong tokens
}

func newGuard(p func() *policy.Policy, m *metrics.Metrics, log *logrus.Logger) *guard {
	g := &guard{policy: p, metrics: m}
	g.wrong = throttle.New(func(from netip.Addr, wrong int) {
		log.WithField("client", from).Warnf("the admin listener refused a wrong token from %s: %d since the last such line", from, wrong)
	})
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
			refuse(w, because(http.StatusForbidden, "this listener is not on loopback, so admin.token must be set"))
			return
		case rebound(r.Host, admin.Listen):
			refuse(w, because(http.StatusForbidden, "the Host header names none of this listener's addresses; set admin.token to use other names"))
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

func challenge(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Bearer realm="abide"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="abide", charset="UTF-8"`)
	refuse(w, because(http.StatusUnauthorized, "admin.token is needed, as a bearer token or as a password"))
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

// contentPolicy lists the files that pages of the listener may load: those of the listener alone, and no
// script or style inside a page.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hardened sets what browsers must know about every answer.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// With no-referrer, browsers would hide from us that a form is our own page's.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// forServers turns away what is meant for a proxy: somebody confused the two
// addresses, and silence would let them search for long.
func forServers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE")
			refuse(w, because(http.StatusMethodNotAllowed, "this is the admin listener of abide, not its proxy"))
		case r.URL.IsAbs() || r.URL.Host != "" || !strings.HasPrefix(r.URL.Path, "/"):
			refuse(w, because(http.StatusBadRequest, "this is the admin listener of abide, not its proxy"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin refuses requests that change something when a page of another
// origin makes them. Clients that are not browsers say nothing of origins.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, because(http.StatusForbidden, "a page of another origin may not change anything here"))
	}))
	return protection.Handler(next)
}

// recovering keeps a fault of ours to its request.
func recovering(log *logrus.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer caught(log, "answer a request", func() { refuse(w, because(http.StatusInternalServerError, ourFault)) })
		next.ServeHTTP(w, r)
	})
}

// ourFault is the answer after a panic.
const ourFault = "a fault of abide's, which its log tells about"

// caught is deferred: it logs a panic and calls failed. do says what the listener failed to do.
func caught(log *logrus.Logger, do string, failed func()) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		log.WithField("stack", string(debug.Stack())).Error("the admin listener failed to " + do)
		failed()
	}
}

// rebound tells whether the Host header is a name that a stranger may have
// pointed at this machine. An address cannot be: a page that was loaded from it
// came from here.
func rebound(host, listen string) bool {
	name := hostOf(host)
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || name == hostOf(listen) {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err != nil
}

// beyondLoopback tells whether others than this machine can reach a listener.
func beyondLoopback(listen string) bool {
	name := hostOf(listen)
	if name == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(name)
	return err != nil || !addr.Unmap().IsLoopback()
}

// hostOf is the host of "host:port" or of a host alone.
func hostOf(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	return strings.TrimSuffix(strings.ToLower(s), ".")
}
