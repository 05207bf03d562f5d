package sitelog

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

// lineKind is the kind of a line. Each kind has its own lineEvery.
type lineKind uint8

const (
	holdBegins lineKind = iota
	holdEnds
	refusalBegins
	refusalEnds
	lineKinds
)

// siteState is the state of a site for its log lines.
type siteState struct {
	holds    queue.SiteWaiting // as last seen
	holding  bool
	since    time.Time     // when that began
	seen     time.Time     // when a long hold was last seen
	episodes int           // times that it held requests, since the last line that said so
	held     int           // requests held for longHold since the last such line
	longest  time.Duration // longest hold of one of these
	number   uint64        // of the line that will say so

	refusing  bool
	refusedAt time.Time // when that began
	until     time.Time // no request of the refused scope is sent before
	refusals  int       // since the last line about the end of refusals
	shown     int       // of these, refusals passed to a client

	due     [lineKinds]time.Time // no line of the kind before
	skipped [lineKinds]int       // lines of the kind that were postponed
}

// over tells whether the state can be forgotten without changing any line.
func (s *siteState) over(now time.Time) bool {
	if s.holding || s.refusing {
		return false
	}
	for kind := range lineKinds {
		if s.due[kind].After(now) || s.skipped[kind] > 0 {
			return false
		}
	}
	return true
}

// begins is the line of a site that begins to hold requests.
func (s *siteState) begins(now time.Time) string {
	h := &s.holds
	return fmt.Sprintf("%s: %s %s", h.Site, heldRequests(h), HeldUntil(now, h.Blocker))
}

// ends is the line of a site that holds requests no more.
func (s *siteState) ends(site string) string {
	took := max(s.seen.Sub(s.since), s.longest)
	text := fmt.Sprintf("%s: no request is held any more", site)
	if s.episodes > 1 {
		text += fmt.Sprintf(", after %s since the last such line", times(s.episodes))
	} else {
		text += ", after " + InSeconds(took)
	}
	return text + fmt.Sprintf("; held for over a second: %s, the longest for %s", requests(s.held), InSeconds(s.longest))
}

// accepts is the line of a site that does not refuse requests any more.
func (s *siteState) accepts(now time.Time, site string) string {
	text := fmt.Sprintf("%s: the site accepts requests again", site)
	if s.skipped[refusalEnds] == 0 {
		text += ", after " + InSeconds(now.Sub(s.refusedAt))
	} else {
		text += fmt.Sprintf(", %s since the last such line", times(s.skipped[refusalEnds]+1))
	}
	return text + fmt.Sprintf("; refusals: %d, of which clients saw %d", s.refusals, s.shown)
}
