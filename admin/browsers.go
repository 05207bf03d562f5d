package admin

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"

	"github.com/sirupsen/logrus"
)

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
			refuse(w, http.StatusMethodNotAllowed, "this is the admin listener of abide, not its proxy")
		case r.URL.IsAbs() || r.URL.Host != "" || !strings.HasPrefix(r.URL.Path, "/"):
			refuse(w, http.StatusBadRequest, "this is the admin listener of abide, not its proxy")
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
		refuse(w, http.StatusForbidden, "a page of another origin may not change anything here")
	}))
	return protection.Handler(next)
}

// recovering keeps a fault of ours to its request.
func recovering(log *logrus.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch v := recover(); v {
			case nil:
			case http.ErrAbortHandler:
				panic(v)
			default:
				log.WithField("stack", string(debug.Stack())).Error("the admin listener failed to answer a request")
				refuse(w, http.StatusInternalServerError, "a fault of abide's, which its log tells about")
			}
		}()
		next.ServeHTTP(w, r)
	})
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
