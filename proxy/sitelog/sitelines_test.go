package sitelog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// heldAt is a site whose first request waits since a time, for three requests per 5 s.
func heldAt(since, until float64, n int) []queue.SiteWaiting {
	return []queue.SiteWaiting{{
		Site: "api.test", Held: n, Clients: 1, Client: "news", Since: at(since),
		Blocker: queue.Blocker{Limit: "3 requests per 5s", Until: at(until)},
	}}
}

// texts takes the lines to write, and returns their texts. Each has its site as a field, and no
// field that its text does not say.
func texts(t *testing.T, l *siteLines) (all []string) {
	t.Helper()
	for _, line := range l.take() {
		all = append(all, line.text)
		for key, value := range line.fields {
			if line.fields["site"] == nil || !strings.Contains(line.text, fmt.Sprint(value)) {
				t.Errorf("the field %s is %v in the line %s", key, value, line.text)
			}
		}
	}
	return all
}

func wantLines(t *testing.T, l *siteLines, want ...string) {
	t.Helper()
	if got := texts(t, l); !slices.Equal(got, want) {
		t.Errorf("the lines are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// look is a look at what waits, as Log takes it every second.
func look(l *siteLines, now float64, waiting []queue.SiteWaiting) {
	l.waiting(at(now), waiting)
	l.pass(at(now))
}

func TestASiteThatHoldsForLongHasALineAtItsBeginAndItsEnd(t *testing.T) {
	var l siteLines
	look(&l, 0.5, heldAt(0, 40, 7))
	wantLines(t, &l)
	look(&l, 1.5, heldAt(0, 40, 7))
	wantLines(t, &l, "api.test: 7 requests of news are held, the first until 12:00:40 (in 39s), limit: 3 requests per 5s")
	for now := 2.5; now < 40; now++ {
		look(&l, now, heldAt(0, 40, 7))
	}
	for range 7 {
		l.released(at(40), "api.test", 40*time.Second, &lineWait{})
	}
	look(&l, 40.5, nil)
	wantLines(t, &l)
	look(&l, 43, nil)
	wantLines(t, &l, "api.test: no request is held any more, after 40s; held for over a second: 7 requests, the longest for 40s")
}

func TestASiteThatIsPacedForMillisecondsHasNoLine(t *testing.T) {
	var l siteLines
	for now := 0.0; now < 100; now++ {
		look(&l, now, heldAt(now-0.9, now+0.1, 3))
		l.released(at(now), "api.test", 900*time.Millisecond, &lineWait{})
	}
	wantLines(t, &l)
	if len(l.sites) > 0 {
		t.Error("it remembers the site")
	}
}

func TestThereIsAtMostOneLineAMinuteOfAKind(t *testing.T) {
	var l siteLines
	var lines []string
	// For ten minutes a request is held for 4 s every 8 s.
	for now := 0; now < 600; now++ {
		if from := now - now%8; now-from < 5 {
			look(&l, float64(now), heldAt(float64(from), float64(from+4), 1))
		} else {
			look(&l, float64(now), nil)
		}
		if now%8 == 4 {
			l.released(at(float64(now)), "api.test", 4*time.Second, &lineWait{})
		}
		for _, line := range texts(t, &l) {
			lines = append(lines, fmt.Sprintf("%3d %s", now, line))
		}
	}
	l.finish(at(600))
	lines = append(lines, texts(t, &l)...)
	begins, held := 0, 0
	for _, line := range lines {
		if strings.Contains(line, " of news is held") {
			begins++
		}
		if _, rest, ends := strings.Cut(line, "held for over a second: "); ends {
			var n int
			fmt.Sscan(rest, &n)
			held += n
		}
	}
	if len(lines) > 21 || begins < 9 || begins > 10 || held != 75 {
		t.Errorf("%d lines, of which %d of a begin; in all they count %d of 75 requests:\n%s", len(lines), begins, held, strings.Join(lines, "\n"))
	}
}

func TestAHoldThatBeganWithoutALineHasOneWhenItIsDue(t *testing.T) {
	var l siteLines
	look(&l, 2, heldAt(0, 3, 1))
	look(&l, 6, nil)
	l.take()
	look(&l, 20, heldAt(18, 200, 1))
	wantLines(t, &l)
	look(&l, 63, heldAt(18, 200, 1))
	wantLines(t, &l, "api.test: 1 request of news is held until 12:03:20 (in 2m17s), limit: 3 requests per 5s")
}

func TestARefusalHasALineThatSaysWhatFollows(t *testing.T) {
	var l siteLines
	refused := Refusal{Site: "api.test", Status: 429, Scope: "site", Until: at(2), Why: "Retry-After", Again: true}
	if !l.refused(at(0), refused) || l.refused(at(0.1), refused) {
		t.Error("it begins to refuse once")
	}
	wantLines(t, &l, "api.test: the site refuses a request (status 429); nothing is sent for this site until 12:00:02 (in 2s) (Retry-After); the request is sent again then, the client does not see it")
	if l.accepted(at(1), "api.test", at(-1)) {
		t.Error("an answer to what was sent before the refusal ends it")
	}
	if !l.accepted(at(2.2), "api.test", at(2.1)) {
		t.Error("an accepted request does not end it")
	}
	wantLines(t, &l, "api.test: the site accepts requests again, after 2.2s; refusals: 2, of which clients saw 0")

	l.refused(at(3), refused)
	l.accepted(at(6), "api.test", at(5))
	wantLines(t, &l)
	refused = Refusal{Site: "api.test", Status: 403, Scope: "token", Token: "alice", Until: at(90), Why: "refused without a time"}
	l.refused(at(70), refused)
	wantLines(t, &l, "api.test: the site refuses a request (status 403) with the token alice; nothing is sent for this token until 12:01:30 (in 20s) (refused without a time); the client is given the refusal")
	l.accepted(at(91), "api.test", at(90))
	wantLines(t, &l, "api.test: the site accepts requests again; it began to do so 2 times since the last such line; refusals: 2, of which clients saw 1")
}

func TestALineThatIsWrittenLaterSaysWhenTheSiteAccepted(t *testing.T) {
	var l siteLines
	refused := Refusal{Site: "api.test", Status: 429, Scope: "site", Until: at(2), Why: "Retry-After", Again: true}
	l.refused(at(0), refused)
	l.accepted(at(2), "api.test", at(2))
	refused.Until = at(4)
	l.refused(at(3), refused)
	l.accepted(at(4.5), "api.test", at(4.4))
	l.take()
	l.pass(at(64))
	wantLines(t, &l)
	l.pass(at(65))
	wantLines(t, &l, "api.test: the site accepts requests again, after 1.5s; refusals: 1, of which clients saw 0")
}

// TestNoTimeThatIsOverIsTold: of a refusal without a time, and of a request whose time has come.
func TestNoTimeThatIsOverIsTold(t *testing.T) {
	var l siteLines
	l.refused(at(5), Refusal{Site: "api.test", Status: 403, Scope: "site", Why: "the site refuses everything", Again: true})
	wantLines(t, &l, "api.test: the site refuses a request (status 403) (the site refuses everything); the request is sent again, the client does not see it")
	for _, k := range []queue.Blocker{{Limit: "cooldown", Until: at(5)}, {Limit: "5 per 1s", Until: at(4)}} {
		if got := HeldUntil(at(5), 3, k); strings.Contains(got, "until") || strings.Contains(got, "first") {
			t.Error(got)
		}
	}
	if got := WithLast("held", at(5), at(4)); got != "held" {
		t.Error(got)
	}
}

func TestARefusalNamesTheBackendThatIsPaused(t *testing.T) {
	var l siteLines
	l.refused(at(0), Refusal{Site: "llm.pool", Backend: "k1.test", Status: 529, Scope: "backend", Until: at(2), Why: "Retry-After", Again: true})
	wantLines(t, &l, "llm.pool: the backend k1.test refuses a request (status 529); nothing is sent for this backend until 12:00:02 (in 2s) (Retry-After); the request is sent again then, the client does not see it")
	if got, want := HeldUntil(at(0), 1, queue.Blocker{Limit: "backend of k1.test", Until: at(2), Why: SiteFailed}), " until 12:00:02 (in 2s): the backend k1.test is paused (it failed too often)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestASiteThatIsAskedForNothingAfterARefusalIsForgotten(t *testing.T) {
	var l siteLines
	l.refused(at(0), Refusal{Site: "api.test", Status: 429, Scope: "site", Until: at(2), Why: "Retry-After", Again: true})
	forgotten := 0
	for now := 0.0; now < 200; now++ {
		forgotten += l.pass(at(now))
	}
	if forgotten != 1 || len(l.sites) > 0 {
		t.Errorf("forgotten %d times, idle %v", forgotten, len(l.sites) == 0)
	}
}

func TestSitesThatHoldAndRefuseNoMoreAreForgotten(t *testing.T) {
	var l siteLines
	const sites = mostSites / 2
	for i := range sites {
		site := fmt.Sprintf("s%d.test", i)
		l.waiting(at(2), []queue.SiteWaiting{{Site: site, Held: 1, Clients: 1, Since: at(0)}})
		l.released(at(3), site, 3*time.Second, &lineWait{})
		l.refused(at(3), Refusal{Site: site, Scope: "site", Until: at(4)})
	}
	if len(l.sites) != sites {
		t.Errorf("it remembers %d", len(l.sites))
	}
	for now := 4.0; now < 200; now++ {
		l.pass(at(now))
		l.take()
	}
	if len(l.sites) > 0 {
		t.Errorf("it remembers %d", len(l.sites))
	}
}

func TestTheSitesOfALogAreBounded(t *testing.T) {
	var l siteLines
	for i := range 3 * mostSites {
		l.refused(at(0), Refusal{Site: fmt.Sprintf("s%d.test", i), Scope: "site", Until: at(2)})
	}
	if len(l.sites) != mostSites {
		t.Errorf("it remembers %d", len(l.sites))
	}
}

func TestWhatIsLeftOutIsSaidAtTheEnd(t *testing.T) {
	var l siteLines
	for _, from := range []float64{0, 10} {
		look(&l, from+2, heldAt(from, from+3, 1))
		l.released(at(from+3), "api.test", 3*time.Second, &lineWait{})
		look(&l, from+6, nil)
	}
	l.take()
	l.finish(at(17))
	wantLines(t, &l, "api.test: no request is held any more, after 3s; held for over a second: 1 request, the longest for 3s")
}

func TestARequestThatWaitsAgainIsNoOtherRequest(t *testing.T) {
	var l siteLines
	var wait lineWait
	for now := 0.0; now < 12; now++ {
		look(&l, now, heldAt(0, 12, 1))
		if now > 0 && int(now)%4 == 0 {
			l.released(at(now), "api.test", 4*time.Second, &wait)
		}
	}
	l.released(at(12), "api.test", 4*time.Second, &wait)
	l.take()
	look(&l, 15, nil)
	wantLines(t, &l, "api.test: no request is held any more, after 12s; held for over a second: 1 request, the longest for 12s")
	for now := 80.0; now < 85; now++ {
		look(&l, now, heldAt(80, 85, 1))
	}
	l.released(at(85), "api.test", 5*time.Second, &wait)
	l.take()
	look(&l, 88, nil)
	wantLines(t, &l, "api.test: no request is held any more, after 5s; held for over a second: 1 request, the longest for 5s")
}

func TestAnotherCauseOfAHoldHasALineOfItsOwn(t *testing.T) {
	var l siteLines
	held := func(after int, limit string) []siteLine {
		now := at(float64(after))
		l.waiting(now, []queue.SiteWaiting{{Site: "api.test", Held: 1, Since: noon, Blocker: queue.Blocker{Limit: limit, Until: now.Add(time.Hour)}}})
		l.pass(now)
		return l.take()
	}
	said := 0
	for after := 2; after < 600; after++ {
		limit := "5 per 1s"
		if after > 90 && after%2 > 0 {
			limit = "1000 per day"
		}
		for _, line := range held(after, limit) {
			if said++; !strings.Contains(line.text, limit) {
				t.Errorf("after %d s: %s", after, line.text)
			}
		}
	}
	if said != 5 {
		t.Errorf("%d lines, not one for each limit and whenever the hold lasts twice as long", said)
	}
}

// A site that holds requests for hours has few lines.
func TestAHoldHasAnotherLineWheneverItHasLastedTwiceAsLong(t *testing.T) {
	var l siteLines
	var said []int
	for now := 2; now < 400; now++ {
		look(&l, float64(now), heldAt(0, float64(now-now%10+10), 4))
		for _, line := range texts(t, &l) {
			if said = append(said, now); strings.Contains(line, "more since") {
				t.Error(line)
			}
		}
	}
	if !slices.Equal(said, []int{2, 62, 124, 248}) {
		t.Errorf("lines at %v", said)
	}
}
