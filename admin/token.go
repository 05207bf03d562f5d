package admin

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

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
// guessed without end: ok is false, and the request answered.
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
	from := r.RemoteAddr
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = at.Addr().Unmap().WithZone("").String()
	}
	wait, right := d.guesses.of(from).try(time.Now(), func() bool { return token.Equal(presented) })
	switch {
	case right:
		return true
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(w, http.StatusTooManyRequests, "too many wrong tokens from this address")
		return false
	}
	d.Log.Warnf("the admin listener refused a wrong token from %s", from)
	challenge(w)
	return false
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

// Wrong tokens that an address may present at once, and how long it has to wait
// for each further one.
const (
	freeGuesses   = 10
	guessInterval = 5 * time.Second
	maxGuessers   = 10_000
)

// guesses counts wrong tokens by address. It remembers the last 10,000 addresses.
type guesses struct {
	by *lru.Cache[string, *guesser]
}

// guesser is one address. Its guesses are looked at one after the other, so that
// many at once get no further, and right ones never count.
type guesser struct {
	mu   sync.Mutex
	left *rate.Limiter // wrong tokens that it may still present
}

// try looks at a guess, or tells how long to wait before it would be.
func (g *guesser) try(now time.Time, right func() bool) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := g.left.TokensAt(now); left < 1 {
		return time.Duration((1 - left) * float64(guessInterval)), false
	}
	if right() {
		return 0, true
	}
	g.left.AllowN(now, 1)
	return 0, false
}

func newGuesses() *guesses {
	by, err := lru.New[string, *guesser](maxGuessers)
	if err != nil {
		panic(err) // only a size below one can be refused
	}
	return &guesses{by}
}

func (g *guesses) of(from string) *guesser {
	// One customer of a provider has a /64 of IPv6 addresses at least.
	if addr, err := netip.ParseAddr(from); err == nil && addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			from = network.String()
		}
	}
	fresh := &guesser{left: rate.NewLimiter(rate.Every(guessInterval), freeGuesses)}
	if known, ok, _ := g.by.PeekOrAdd(from, fresh); ok {
		g.by.Get(from) // it counts as used
		return known
	}
	return fresh
}
