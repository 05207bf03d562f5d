package tokens

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// State tells whether a token may be used.
type State uint8

// The states.
const (
	Ready       State = iota
	Cooling           // a server refused it until some time
	Spent             // the allowance of a server or a quota is used up
	Quarantined       // a server does not accept the token
	Disabled          // the operator disabled it
)

var stateNames = [...]string{"ready", "cooling", "spent", "quarantined", "disabled"}

func (s State) String() string { return stateNames[s] }

// availability is a token's state for one route, or a pause of an account or a route. The zero value is no pause.
type availability struct {
	State State
	Until time.Time // end of the state; zero for Ready and for Disabled, which the operator ends
	Why   string
	Site  string // of a quarantine: the only site that does not accept the token; "": all
}

// maxPause bounds the length of a pause.
const maxPause = 10 * 365 * 24 * time.Hour

// maxRoutes bounds the routes of an account that have a pause of their own.
const maxRoutes = 256

// account is the state of one account of a server: usually of one token, or of several
// tokens with the same account. Its atomic fields are read by Pick without a lock; the
// other fields are guarded by Pool.mu.
type account struct {
	key    string
	stable string // the smallest of the stable names of the account's tokens

	throttledAt  atomic.Int64  // last refusal by a server, in Unix nanoseconds; 0: never
	used         atomic.Uint64 // Pool.uses at the last use
	blockedUntil atomic.Int64  // end of the pause of all routes, in Unix nanoseconds

	all    availability            // pause of all routes
	routes map[string]availability // :: route → its own pause
}

// pauseUntil pauses a route, or all routes if route is "". It never shortens a pause.
func (a *account) pauseUntil(now time.Time, route string, p availability) {
	if !p.Until.After(now) {
		return
	}
	if most := now.Add(maxPause); p.Until.After(most) {
		p.Until = most
	}
	if route == "" {
		if p.Until.After(a.all.Until) {
			a.all = p
			a.blockedUntil.Store(p.Until.UnixNano())
		}
		return
	}
	if _, there := a.routes[route]; !there && len(a.routes) >= maxRoutes {
		// Pausing the whole account would be too strict: the queue of the site
		// holds requests of the dropped route back. The pause that ends first goes.
		delete(a.routes, slices.MinFunc(slices.Collect(maps.Keys(a.routes)), func(x, y string) int { return a.routes[x].Until.Compare(a.routes[y].Until) }))
	}
	if p.Until.After(a.routes[route].Until) {
		if a.routes == nil {
			a.routes = map[string]availability{}
		}
		a.routes[route] = p
	}
}

// pause returns the pause of a route at a time, or the zero pause.
func (a *account) pause(now time.Time, route string) availability {
	p := a.all
	if ours := a.routes[route]; route != "" && ours.Until.After(p.Until) {
		p = ours
	}
	if !p.Until.After(now) {
		return availability{}
	}
	return p
}

// mergeFrom takes over the pauses and uses of another account.
func (a *account) mergeFrom(now time.Time, b *account) {
	a.pauseUntil(now, "", b.all)
	for route, p := range b.routes {
		a.pauseUntil(now, route, p)
	}
	a.throttledAt.Store(max(a.throttledAt.Load(), b.throttledAt.Load()))
	a.used.Store(max(a.used.Load(), b.used.Load()))
}

// state is the state of one secret. Its atomic fields are read by Pick without a lock; the
// other fields are guarded by Pool.mu.
type state struct {
	key    string
	stable string

	account      atomic.Pointer[account]
	used         atomic.Uint64 // Pool.uses at the token's last use
	blockedUntil atomic.Int64  // end of its quarantine at all sites, in Unix nanoseconds
	lastAccepted atomic.Int64  // last success, in Unix nanoseconds; 0: none

	disabled       string    // reason; "": enabled
	switchedAt     time.Time // when an operator last enabled or disabled it
	switchedHere   bool      // the operator did it at this process
	rejection      rejection
	proven         bool      // a site has accepted it at some time
	accepted       time.Time // when the last accepted request was sent
	trialSince     time.Time // start of the request that tries it after a quarantine; zero: none
	failures       int       // failures in a row, see Pool.Fail
	doubtAt        int       // failures in a row from which the token is doubted; 0: as usual
	contradictions int       // failures in a row that another token did not have with the same request
	ignoredDenials int       // denials blamed on the request, since the last success
	leftAt         time.Time // when it left the pool
	heardUntil     time.Time // end of the latest quarantine that another instance reported

	uses, refusals, denials uint64
}

// rejection is the state of a secret's denials: answers with which a site does not accept
// the secret.
type rejection struct {
	denialsInRow     int       // denials in a row
	quarantinesInRow int       // quarantines in a row
	since            time.Time // start of the last quarantine
	until            time.Time // end of the last quarantine
	sent             time.Time // when the last denied request was sent
	reason           string
	site             string // that has denied the secret; "": more than one
}

// by returns the rejection after another denial by a site.
func (r rejection) by(site string) rejection {
	switch {
	case r.denialsInRow == 0 && r.quarantinesInRow == 0:
		r.site = site
	case r.site != site:
		r.site = ""
	}
	return r
}

// covers tells whether the rejection is about a site. "" is any site.
func (r *rejection) covers(site string) bool { return r.site == "" || site == "" || r.site == site }

// siteOf is the site of a route, which its name begins with.
func siteOf(route string) string {
	site, _, _ := strings.Cut(route, " ")
	return site
}

func (s *state) availability(now time.Time, route string) availability {
	if s.disabled != "" {
		return availability{State: Disabled, Why: s.disabled}
	}
	p := s.account.Load().pause(now, route)
	if q := &s.rejection; q.until.After(now) && q.covers(siteOf(route)) {
		return availability{Quarantined, status.Later(q.until, p.Until), q.reason, q.site}
	}
	if p.State == Ready && s.rejection.denialsInRow > 0 && strings.Contains(s.rejection.reason, ": ") { // see Pool.Deny
		p.Why = s.rejection.reason
	}
	return p
}

// reject sets the rejection. It returns true if the change must be persisted.
func (s *state) reject(r rejection) (news bool) {
	news = r.quarantinesInRow != s.rejection.quarantinesInRow || !r.until.Equal(s.rejection.until) || r.site != s.rejection.site
	s.rejection = r
	s.blockedUntil.Store(0)
	if !r.until.IsZero() && r.site == "" {
		s.blockedUntil.Store(r.until.UnixNano())
	}
	return news
}

// Token is one credential of a pool. It is immutable; its state belongs to the pool.
// However a token is printed or encoded, it shows as its label.
type Token struct {
	name               // the label
	labelIsNumber bool // the source has no label for it
	secret        policy.Secret
	id            id
	state         *state
}

// Label is the token's name for operators. No two tokens of a pool have the same label.
func (t *Token) Label() string { return t.shown }

// Key names the token's meters in this process: the label at its first load, made unique. A
// reload that changes the label keeps the key. For names across processes see stable.
func (t *Token) Key() string { return t.state.key }

// Budget is the key of the token's account: tokens of one account share one budget.
func (t *Token) Budget() string { return t.state.account.Load().key }

// name has the text by which a value that holds secrets is printed and encoded, whatever else it has.
type name struct{ shown string }

// Format prints the name alone.
func (n name) Format(f fmt.State, verb rune) {
	text := n.shown
	if verb == 'q' || f.Flag('#') {
		text = strconv.Quote(text)
	}
	_, _ = io.WriteString(f, text)
}

// MarshalText implements JSON, XML, YAML and every other text encoding.
func (n name) MarshalText() ([]byte, error) { return []byte(n.shown), nil }

// stable hashes a secret to its name, the same in every process that has it in a pool of this name. It is for
// stores and files and is never shown to users: by this name a guess of the secret could be confirmed.
func stable(pool string, secret policy.Secret) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "abide: the name of a token\x00")
	_, _ = io.WriteString(h, pool)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, secret.Reveal())
	return hex.EncodeToString(h.Sum(nil)[:stableBytes])
}

const stableBytes = 16

// id is a secret's keyed hash. Tokens with the same id have the same secret.
type id [sha256.Size]byte

// String is a prefix of the hash, long enough to distinguish tokens.
func (i id) String() string { return hex.EncodeToString(i[:4]) }

// processKey is random for each process, so hashes cannot be looked up elsewhere.
var processKey = func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}()

func hashOf(secret policy.Secret) id {
	h := hmac.New(sha256.New, processKey)
	_, _ = io.WriteString(h, secret.Reveal())
	var sum id
	h.Sum(sum[:0])
	return sum
}
