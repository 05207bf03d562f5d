package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

// TestTweepyFetchesRetweetersWithThreeTokensAndNoRefusal: Tweepy, which knows none
// of the tokens and waits for nothing, gets every page through abide as soon as X
// and its announcements let three tokens have them.
func TestTweepyFetchesRetweetersWithThreeTokensAndNoRefusal(t *testing.T) {
	t.Parallel()
	late := ""
	for range 3 { // the machine may have something else to do
		if late = fetchRetweeters(t); late == "" || t.Failed() {
			return
		}
		t.Log(late)
	}
	t.Error(late)
}

// fetchRetweeters says what came later than it had to.
func fetchRetweeters(t *testing.T) (late string) {
	t.Helper()
	const (
		tweets, pages, limit = 16, 50, 75
		window               = 3 * time.Second
		// X says the second in which a window ends, by a clock that may be another:
		// the resolution, what abide thinks a clock can be off, and once a second more to
		// learn the phase of the resets.
		margin = time.Second + 2*time.Second + time.Second + 500*time.Millisecond
	)
	labels := []string{"alice", "bob", "carol"}
	file, known := "account,created,bearer_token\n", map[string]bool{}
	for _, label := range labels {
		secret := "AAAA%2Fcanary%3D" + label
		file += label + ",2019-01-01," + secret + "\n"
		known["Bearer "+secret] = true
	}
	path := filepath.Join(t.TempDir(), "account_setting.csv")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	x := &xAPI{limit: limit, window: window, pages: pages, tokens: known, windows: map[[2]string]*xWindow{}}
	o := startOriginThat(t, x.ServeHTTP)
	a := startAbide(t, setup{intercept: "auto", more: fmt.Sprintf(`
pools:
  x: {file: %q, column: bearer_token, label: account}
sites:
  - {host: [api.x.com, api.twitter.com], group: rule, name: x, pool: x}
`, path)}, o)

	c := client{command: script(python, "retweeters_client.py"), needs: "tweepy"}
	c.present(t)
	args, want := []string{"retweeters_client.py"}, []string(nil)
	for n := range tweets {
		tweet := strconv.Itoa(1460323737035677698 + n)
		var users []string
		for page := range pages {
			users = append(users, retweetersOf(tweet, page)...)
		}
		args = append(args, tweet)
		want = append(want, fmt.Sprintf("%s %d %s", tweet, pages*perPage, sum(strings.Join(users, " "))))
	}
	out := run(t, ca.Env("http://"+a.proxy, a.trust.caFile, a.trust.bundleFile), python, args...)
	if t.Failed() {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	same(t, "Tweepy said", lines[:len(lines)-1], append(want, strings.Join(labels, " ")))
	seconds, err := strconv.ParseFloat(lines[len(lines)-1], 64)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Duration(seconds * float64(time.Second))

	for _, r := range o.requests() {
		if values := r.Header["Authorization"]; len(values) != 1 || !known[values[0]] {
			t.Errorf("a request came with %q", values)
		}
	}
	if x.refused != 0 || len(x.unknown) != 0 || len(x.arrivals) != tweets*pages {
		t.Errorf("of %d requests X refused %d for their rate and %q for their token", len(x.arrivals), x.refused, x.unknown)
	}
	for _, label := range labels {
		if n := a.metric(t, "abide_token_uses_total", `token="`+label+`"`); n < limit {
			t.Errorf("%s was used %d times", label, n)
		}
	}
	waits := (tweets*pages - 1) / (len(labels) * limit)
	return x.timely(t, took, waits, margin)
}

// timely looks whether nothing waited longer than it had to. A window begins within a
// second and ends at a whole one, so that each may be shorter by that.
func (x *xAPI) timely(t *testing.T, took time.Duration, waits int, margin time.Duration) string {
	t.Helper()
	const (
		idle  = time.Second // without a request, which Tweepy has always: abide waits
		pause = time.Second // that a busy machine may make of it
	)
	least := time.Duration(waits) * (x.window + margin)
	soonest := time.Duration(waits) * (x.window - time.Second)
	var idled time.Duration
	for i := 1; i < len(x.arrivals); i++ {
		gap := x.arrivals[i].at.Sub(x.arrivals[i-1].at)
		if gap < idle {
			continue
		}
		idled += gap
		t.Logf("nothing was sent for %v, until %v after the first of the tokens had more", gap, x.arrivals[i].at.Sub(x.arrivals[i].first))
		if late := x.arrivals[i].at.Sub(x.arrivals[i].first); late > margin+pause {
			return fmt.Sprintf("%v later than it had to be", late-margin)
		}
	}
	work := took - idled
	t.Logf("%v for %d pages, of which %v must be; nothing was sent for %v", took, len(x.arrivals), least, idled)
	if took < soonest {
		t.Errorf("%v for %d pages, which need %v", took, len(x.arrivals), soonest)
	}
	if took > max(least, work)+x.window+margin {
		return fmt.Sprintf("%v for %d pages, which need %v", took, len(x.arrivals), least)
	}
	return ""
}
