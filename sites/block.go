package sites

import (
	"slices"
	"time"
)

const (
	// usual is the number of successes before a refusal of everything is unusual.
	usual = 3
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
	knownPage Page   // its answer
	successes int64
	blocked   bool
	verifying time.Time // since when a request verifies, or the site blocks; zero: neither
	trust     time.Time // until then 403 is the site's own answer
	streak    int       // answers 403 without a success
	longest   int       // streak that is verified again
	page      Page      // of the answer that is verified
	own       []Page    // of answers that were the site's own
	refusal   Page      // of answers by which it refused; zero: none
	last      Page      // of a URL
	lastURL   string
}

// Page is the look of an answer: pages by which a site blocks look different from its own.
type Page struct {
	Sum  uint64 // of the type, the server and the length, and of the text of a page with the status of a success
	Text bool   // it is such a page
}

// mostPages bounds the pages of a site that look different. If it has more, they do not tell
// anything.
const mostPages = 8

// trusts reports whether an answer is the site's own, as far as it looks like others were.
func (b *block) trusts(page Page) bool {
	return len(b.own) >= mostPages || slices.Contains(b.own, page)
}

// succeeded counts a success.
func (b *block) succeeded() { b.successes, b.streak = b.successes+1, 0 }

// alike reports whether a page that is the answer to a URL is the same as that of another URL just before, or that is
// verified, and not the one that the known URL had.
func (b *block) alike(url string, page Page) bool {
	again := page == b.page || page == b.last && url != b.lastURL
	b.last, b.lastURL = page, url
	return again && b.known != "" && page != b.knownPage
}

// forbidden takes an answer 403, or one that may be a refusal, to a request of a host. again: the request was refused before.
func (b *block) forbidden(now time.Time, host string, page Page, again bool) Access {
	b.streak++
	switch {
	case b.blocked:
		return Blocked
	case b.successes < usual, b.known == "" || b.host != host:
		return Forbidden
	case page == b.refusal && !again:
		return Blocked
	case !b.verifying.IsZero() && now.Sub(b.verifying) < longestVerification:
		return Verifying
	case now.Before(b.trust) && b.streak <= b.longest && b.trusts(page):
		return Forbidden
	}
	b.verifying, b.page = now, page
	return Verify
}

// verified ends a verification. That a block is over says nothing of what looks like it. The page that everything
// is answered with for long is the site's own.
func (b *block) verified(now time.Time, blocked bool) {
	if blocked && b.verifying.IsZero() {
		b.verifying = now
	}
	believed := !b.blocked
	if blocked && b.page.Text && now.Sub(b.verifying) > trusted {
		blocked, believed = false, true
	}
	switch {
	case blocked:
		b.trust, b.own, b.refusal = time.Time{}, nil, b.page
	case believed:
		if b.page == b.refusal {
			b.refusal = Page{}
		}
		if !b.trusts(b.page) {
			b.own = append(b.own, b.page)
		}
		b.longest = max(firstStreak, min(2*b.longest, 1<<10))
		b.trust, b.streak = now.Add(trusted), 0
	}
	if b.blocked = blocked; !blocked {
		b.verifying = time.Time{}
	}
}
