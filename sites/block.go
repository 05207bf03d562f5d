package sites

import (
	"slices"
	"time"
)

const (
	// usual is the number of successes before a refusal of everything is unusual.
	usual = 10
	// usualOfRoute is the same, of successes of the refused request's route.
	usualOfRoute = 3
	// trusted is the time for which an answer 403 is the site's own after that was verified.
	trusted = 10 * time.Minute
	// firstStreak is the number of answers 403 in a row, without a success, that are verified again.
	firstStreak = 3
	// longestVerification is the longest time in which one request verifies whether the site blocks.
	longestVerification = 30 * time.Second
	// knownLasts is the number of successes for which the URL of one is remembered.
	knownLasts = 64
)

// Access is the meaning of an answer 403 to a request.
type Access uint8

const (
	Forbidden Access = iota // the site's answer to this request
	Verify                  // it has to be verified with a request that succeeded before
	Verifying               // another request verifies just now
	Blocked                 // the site refuses everything
)

// block decides whether a site refuses everything, because of too many requests: answers that
// were successes have become 403. The zero value has seen nothing. It is not safe for
// concurrent use.
type block struct {
	known     string // URL without a host of a request that succeeded
	host      string // its host
	successes int64
	routes    map[string]int // :: route → its successes, of the first
	blocked   bool
	verifying time.Time // since when a request verifies; zero: none
	trust     time.Time // until then 403 is the site's own answer
	streak    int       // answers 403 without a success
	longest   int       // streak that is verified again
	page      Page      // of the answer that is verified
	own       []Page    // of answers that were the site's own
}

// Page is the look of an answer 403: pages by which a site blocks look different from its own.
type Page struct {
	Type, Server string // Content-Type and Server
	Length       int64
}

// longestName bounds the part of a header that is remembered, in bytes.
const longestName = 64

// NewPage returns the look of an answer with these headers and a body of a length, -1 if that is
// not announced.
func NewPage(contentType, server string, length int64) Page {
	return Page{contentType[:min(len(contentType), longestName)], server[:min(len(server), longestName)], length}
}

// mostPages bounds the pages of a site that look different. If it has more, they do not tell
// anything.
const mostPages = 8

// trusts reports whether an answer is the site's own, as far as it looks like others were.
func (b *block) trusts(page Page) bool {
	return len(b.own) >= mostPages || slices.Contains(b.own, page)
}

// succeeded counts a success of a route.
func (b *block) succeeded(route string) {
	if b.routes == nil {
		b.routes = map[string]int{}
	}
	if b.successes++; b.successes < usual {
		b.routes[route]++
	}
	b.streak = 0
}

// forbidden takes an answer 403 to a request of a host and a route.
func (b *block) forbidden(now time.Time, host, route string, page Page) Access {
	b.streak++
	switch {
	case b.blocked:
		return Blocked
	case b.successes < usual && b.routes[route] < usualOfRoute, b.known == "" || b.host != host:
		return Forbidden
	case !b.verifying.IsZero() && now.Sub(b.verifying) < longestVerification:
		return Verifying
	case now.Before(b.trust) && b.streak <= b.longest && b.trusts(page):
		return Forbidden
	}
	b.verifying, b.page = now, page
	return Verify
}

// verified ends a verification. That a block is over says nothing of what looks like it.
func (b *block) verified(now time.Time, blocked bool) {
	switch {
	case blocked:
		b.trust, b.own = time.Time{}, nil
	case !b.blocked:
		if !b.trusts(b.page) {
			b.own = append(b.own, b.page)
		}
		b.longest = max(firstStreak, min(2*b.longest, 1<<10))
		b.trust, b.streak = now.Add(trusted), 0
	}
	b.verifying, b.blocked = time.Time{}, blocked
}
