package routes

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/status"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A visit is a site that is asked one thing after another.
type visit struct {
	*testing.T
	m    *Table
	host string
	now  time.Time
}

func visiting(t *testing.T, host string) *visit {
	return &visit{T: t, m: New(), host: host, now: noon}
}

// ask hears an answer to one request, which took 100 ms: "GET /path 200 | Header:
// value | …". The values may have {90} for the time 90 s after the visit began.
func (v *visit) ask(budget, text string) Learned {
	v.Helper()
	parts := strings.Split(text, " | ")
	var method, path string
	var status int
	if _, err := fmt.Sscanf(parts[0], "%s %s %d", &method, &path, &status); err != nil {
		v.Fatalf("%q: %v", parts[0], err)
	}
	head := http.Header{}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, ": ")
		if at := strings.Index(value, "{"); at >= 0 {
			var ahead int64
			fmt.Sscanf(value[at:], "{%d}", &ahead)
			value = value[:at] + fmt.Sprint(noon.Unix()+ahead) + value[strings.Index(value, "}")+1:]
		}
		head.Add(name, value)
	}
	c := v.m.Class(method, "", path, v.apart(path))
	sent := v.now
	v.now = v.now.Add(100 * time.Millisecond)
	lesson := learn.Read(status, head, nil, learn.Request{Method: method, Host: v.host, Path: path}, v.now)
	got := v.m.Learn(v.now, c, budget, sent, &lesson)
	for _, told := range got.Announcements {
		if !slices.Contains(v.ids(method+" "+path), told.ID) {
			v.Errorf("%s: %q was told and is not in its class %v", text, told.ID, v.ids(method+" "+path))
		}
	}
	return got
}

func (v *visit) apart(path string) int {
	return learn.About(learn.Request{Host: v.host, Path: path}).EntitySegment
}

// ids are those of a request's class: "GET /path".
func (v *visit) ids(text string) []string {
	var ids []string
	for _, l := range v.class(text).Limits {
		ids = append(ids, l.ID)
	}
	return ids
}

func (v *visit) class(text string) *Class {
	method, path, _ := strings.Cut(text, " ")
	return v.m.Class(method, "", path, v.apart(path))
}

// titles are what people see of a request's class.
func (v *visit) titles(text string) string {
	var out []string
	for _, l := range v.class(text).Limits {
		out = append(out, l.Title)
	}
	return strings.Join(out, ", ")
}

func (v *visit) sameIDs(a, b string) {
	v.Helper()
	if !slices.Equal(v.ids(a), v.ids(b)) || len(v.ids(a)) == 0 {
		v.Errorf("%s is under %v, and %s under %v", a, v.ids(a), b, v.ids(b))
	}
}

func (v *visit) otherIDs(a, b string) {
	v.Helper()
	for _, id := range v.ids(a) {
		if slices.Contains(v.ids(b), id) {
			v.Errorf("%s and %s are both under %q", a, b, id)
		}
	}
	if len(v.ids(a)) == 0 || len(v.ids(b)) == 0 {
		v.Errorf("%s is under %v, and %s under %v", a, v.ids(a), b, v.ids(b))
	}
}

func triple(limit, left any, reset int) string {
	return fmt.Sprintf(" | x-rate-limit-limit: %v | x-rate-limit-remaining: %v | x-rate-limit-reset: {%d}", limit, left, reset)
}

func TestEachEndpointOfXHasItsOwnLimit(t *testing.T) {
	for _, host := range []string{"api.x.com", "api.unknown.test"} { // documented or not
		v := visiting(t, host)
		if !v.class("GET /2/tweets/20/retweeted_by").Unknown {
			t.Error("nothing is known, and it is not unknown")
		}
		first := v.ask("one", "GET /2/tweets/20/retweeted_by 200"+triple(75, 74, 900))
		if !first.Changed || len(first.Announcements) != 1 {
			t.Fatalf("learned %+v", first)
		}
		if c := v.class("GET /2/tweets/21/retweeted_by"); c.Unknown || len(c.Limits) != 1 {
			t.Errorf("the class is %+v", c)
		}
		v.ask("one", "GET /2/users/1/tweets 200"+triple(900, 899, 900))
		v.now = v.now.Add(20 * time.Second)
		v.ask("one", "GET /2/users/1/mentions 200"+triple(900, 899, 920))
		again := v.ask("one", "GET /2/tweets/22/retweeted_by 200"+triple(75, 73, 900))
		if again.Changed || again.Announcements[0].ID != first.Announcements[0].ID {
			t.Errorf("again is %+v", again)
		}
		v.otherIDs("GET /2/tweets/20/retweeted_by", "GET /2/users/1/tweets")
		v.otherIDs("GET /2/tweets/20/retweeted_by", "GET /2/users/1/mentions")
		v.otherIDs("GET /2/users/1/tweets", "GET /2/users/1/mentions")
		// Nobody's limit is each new route's.
		if c := v.class("GET /2/tweets/20/quotes"); !c.Unknown || len(c.Limits) != 0 {
			t.Errorf("a new one is %+v", c)
		}
		// Another token has the same limits by the same names.
		v.ask("two", "GET /2/users/1/mentions 200"+triple(900, 899, 1000))
		if v.m.Class("GET", "", "/2/users/2/mentions", 0).Limits[0].ID == "" || len(v.ids("GET /2/users/1/mentions")) != 1 {
			t.Errorf("with two tokens it is %v", v.ids("GET /2/users/1/mentions"))
		}
	}
}

func TestXLimitsOfADayAreForAll(t *testing.T) {
	v := visiting(t, "api.x.com")
	day := " | x-app-limit-24hour-limit: 1000 | x-app-limit-24hour-remaining: %d | x-app-limit-24hour-reset: {80000}"
	v.ask("one", "GET /2/a 200"+triple(75, 74, 900)+fmt.Sprintf(day, 900))
	v.ask("one", "GET /2/b 200"+triple(75, 74, 930)+fmt.Sprintf(day, 899))
	a, b := v.ids("GET /2/a"), v.ids("GET /2/b")
	if len(a) != 2 || len(b) != 2 || a[1] != b[1] && a[1] != b[0] || a[0] == b[0] {
		t.Errorf("they are %v and %v", a, b)
	}
	if c := v.class("GET /2/c"); len(c.Limits) != 1 || c.Limits[0].Title != "1000 per 1d" || !c.Unknown {
		t.Errorf("a new one is %+v", c)
	}
}

func TestGitHubsResourcesUniteRoutes(t *testing.T) {
	v := visiting(t, "api.github.com")
	resource := func(name string, limit, left int) string {
		return fmt.Sprintf(" | x-ratelimit-limit: %d | x-ratelimit-remaining: %d | x-ratelimit-reset: {3600} | x-ratelimit-resource: %s", limit, left, name)
	}
	v.ask("one", "GET /user 200"+resource("core", 5000, 4990))
	v.ask("two", "GET /repos/a/b 200"+resource("core", 5000, 60))
	v.ask("one", "GET /search/code 200"+resource("search", 30, 29))
	v.sameIDs("GET /user", "GET /repos/a/b")
	v.otherIDs("GET /user", "GET /search/code")
	if ids := v.ids("GET /user"); ids[0] != "core/" {
		t.Errorf("its ID is %v", ids)
	}
	if got := v.titles("GET /user"); got != "5000 of core" {
		t.Errorf("its title is %q", got)
	}
	// A refusal by a secondary limit leaves the name out.
	second := v.ask("one", "GET /user 403 | x-ratelimit-limit: 5000 | x-ratelimit-remaining: 4900 | x-ratelimit-reset: {3600} | retry-after: 60")
	if second.Changed || len(second.Announcements) != 1 || second.Announcements[0].ID != "core/" || second.Announcements[0].Refused {
		t.Errorf("a secondary refusal is %+v", second)
	}
	spent := v.ask("one", "GET /user 403"+resource("core", 5000, 0))
	if !spent.Announcements[0].Refused || spent.Announcements[0].RetryAt.IsZero() {
		t.Errorf("a primary refusal is %+v", spent)
	}
}

func TestANameThatCameLateReplacesNone(t *testing.T) {
	v := visiting(t, "api.github.com")
	v.ask("one", "GET /user 200 | x-ratelimit-limit: 5000 | x-ratelimit-remaining: 4900 | x-ratelimit-reset: {3600}")
	v.ask("one", "GET /user 200 | x-ratelimit-limit: 5000 | x-ratelimit-remaining: 4899 | x-ratelimit-reset: {3600} | x-ratelimit-resource: core")
	if ids := v.ids("GET /user"); len(ids) != 1 || ids[0] != "core/" {
		t.Errorf("it is under %v", ids)
	}
}

func TestDiscordsBucketsUniteRoutesOfOneChannel(t *testing.T) {
	v := visiting(t, "discord.com")
	v.ask("bot", "GET /api/v10/channels/41771983423143937/messages 200"+bucket("abcd1234", 4))
	v.ask("bot", "GET /api/v10/channels/41771983423143937/pins 200"+bucket("ffff0000", 4))
	v.ask("bot", "POST /api/v10/channels/41771983423143937/messages 200"+bucket("abcd1234", 3))
	const one = " /api/v10/channels/41771983423143937/"
	v.sameIDs("GET"+one+"messages", "POST"+one+"messages")
	v.otherIDs("GET"+one+"messages", "GET"+one+"pins")
	if ids := v.ids("GET" + one + "pins"); ids[0] != "ffff0000/ channels/41771983423143937" {
		t.Errorf("it is %v", ids)
	}
}

func TestRedditHasOneLimitForAll(t *testing.T) {
	v := visiting(t, "oauth.reddit.com")
	for n, path := range []string{"/r/golang/hot", "/r/linux/new", "/user/spez/about", "/comments/t3_abc123"} {
		v.now = v.now.Add(time.Second)
		v.ask("one", fmt.Sprintf("GET %s 200 | x-ratelimit-remaining: %d.0 | x-ratelimit-used: %d | x-ratelimit-reset: %d", path, 598-n, 2+n, 500-n))
		v.sameIDs("GET /r/golang/hot", "GET "+path)
	}
	if c := v.class("GET /search"); !c.Unknown || len(c.Limits) != 1 {
		t.Errorf("a new route is %+v", c)
	}
	got := v.ask("one", "GET /r/golang/hot 429 | x-ratelimit-remaining: 0.0 | x-ratelimit-used: 1 | x-ratelimit-reset: 42")
	if len(got.Announcements) != 1 || !got.Announcements[0].Refused || got.Changed {
		t.Errorf("a refusal is %+v", got)
	}
	if len(v.m.catalog.groups) != 1 {
		t.Errorf("there are %d limits", len(v.m.catalog.groups))
	}
}

func TestMastodonShowsTheClosestOfSeveral(t *testing.T) {
	v := visiting(t, "mastodon.social")
	said := func(limit, left, reset int) string {
		at := noon.Add(time.Duration(reset) * time.Second).Format("2006-01-02T15:04:05.000000Z")
		return fmt.Sprintf(" | X-RateLimit-Limit: %d | X-RateLimit-Remaining: %d | X-RateLimit-Reset: %s", limit, left, at)
	}
	v.ask("one", "POST /api/v1/statuses 200"+said(300, 299, 300))
	second := v.ask("one", "POST /api/v1/statuses 200"+said(30, 3, 1800))
	if !second.Changed || len(v.ids("POST /api/v1/statuses")) != 2 {
		t.Fatalf("it is under %v", v.ids("POST /api/v1/statuses"))
	}
	if got := v.ask("one", "POST /api/v1/statuses 200"+said(300, 297, 300)); got.Changed {
		t.Error("the first again changes something")
	}
	// Others are under that which they show.
	v.ask("one", "GET /api/v1/timelines/home 200"+said(300, 296, 300))
	if ids := v.ids("GET /api/v1/timelines/home"); len(ids) != 1 || !slices.Contains(v.ids("POST /api/v1/statuses"), ids[0]) {
		t.Errorf("another route is under %v", ids)
	}
	// For more than an hour only the one.
	for n := range 5 {
		v.now = noon.Add(time.Duration(n+1) * 31 * time.Minute)
		v.ask("one", "POST /api/v1/statuses 200"+said(300, 299, 300+int(v.now.Sub(noon).Seconds())))
	}
	if ids := v.ids("POST /api/v1/statuses"); len(ids) != 1 {
		t.Errorf("after hours it is under %v", ids)
	}
}

func TestRiotHasTwoWindowsAtOnce(t *testing.T) {
	v := visiting(t, "euw1.api.riotgames.com")
	said := " | X-App-Rate-Limit: 20:1,100:120 | X-App-Rate-Limit-Count: 1:1,%d:120 | X-Method-Rate-Limit: 2000:60 | X-Method-Rate-Limit-Count: %d:60"
	first := v.ask("key", "GET /lol/match/v5/matches/EUW1_1234567 200"+fmt.Sprintf(said, 97, 3))
	if len(first.Announcements) != 3 {
		t.Fatalf("told %+v", first.Announcements)
	}
	v.ask("key", "GET /lol/summoner/v4/summoners/me 200"+fmt.Sprintf(said, 98, 1))
	a, b := v.ids("GET /lol/match/v5/matches/EUW1_1234567"), v.ids("GET /lol/summoner/v4/summoners/me")
	both := 0
	for _, id := range a {
		if slices.Contains(b, id) {
			both++
			if strings.Contains(id, "method") {
				t.Errorf("the limit of a method is shared: %q", id)
			}
		}
	}
	if both != 2 || len(a) != 3 || len(b) != 3 {
		t.Errorf("they are under %v and %v", a, b)
	}
	if got := v.titles("GET /lol/summoner/v4/summoners/me"); got != "100 per 2m, 20 per 1s, 2000 per 1m" && got != "20 per 1s, 100 per 2m, 2000 per 1m" {
		t.Errorf("the titles are %q", got)
	}
}

func TestNamedItemsOfTheDraft(t *testing.T) {
	v := visiting(t, "h.test")
	said := ` | RateLimit-Policy: "burst";q=100;w=60, "daily";q=5000;w=86400;pk=:%s: | RateLimit: "burst";r=%d;t=30, "daily";r=12;t=3000`
	v.ask("one", "GET /a 200"+fmt.Sprintf(said, "YWJj", 50))
	v.ask("one", "GET /b 200"+fmt.Sprintf(said, "YWJj", 90))
	v.sameIDs("GET /a", "GET /b")
	if ids := v.ids("GET /a"); len(ids) != 2 || !slices.Contains(ids, "burst/burst") || !slices.Contains(ids, "daily/daily/:YWJj:") {
		t.Errorf("it is under %v", ids)
	}
	v.ask("two", "GET /a 200"+fmt.Sprintf(said, "ZGVm", 50))
	if ids := v.ids("GET /a"); len(ids) != 3 || !slices.Contains(ids, "daily/daily/:ZGVm:") {
		t.Errorf("with another partition it is under %v", ids)
	}
	for n := range 100 {
		v.ask(fmt.Sprint(n), "GET /a 200"+fmt.Sprintf(said, fmt.Sprintf("Y%dj", n), 50))
	}
	if ids := v.ids("GET /a"); len(ids) != 1+mostPartitions {
		t.Errorf("with many partitions it is under %d", len(ids))
	}
}

func TestOpenAIsUnitsAreApart(t *testing.T) {
	v := visiting(t, "api.openai.com")
	said := " | x-ratelimit-limit-requests: 60 | x-ratelimit-limit-tokens: 150000 | x-ratelimit-remaining-requests: %d | x-ratelimit-remaining-tokens: 149984 | x-ratelimit-reset-requests: 1s | x-ratelimit-reset-tokens: 6m0s"
	got := v.ask("key", "POST /v1/chat/completions 200"+fmt.Sprintf(said, 59))
	if len(got.Announcements) != 2 || got.Announcements[0].ID == got.Announcements[1].ID {
		t.Errorf("told %+v", got.Announcements)
	}
	if got := v.titles("POST /v1/chat/completions"); got != "60 requests, 150000 tokens" {
		t.Errorf("the titles are %q", got)
	}
}

func TestASiteThatAnnouncesNothingMakesNobodyWait(t *testing.T) {
	v := visiting(t, "quiet.test")
	v.class("GET /waiting")
	if got := v.ask("", "GET /a 200"); !got.Changed || v.m.Silent() || len(got.Announcements) != 0 {
		t.Errorf("the first answer: %+v", got)
	}
	if v.class("GET /a").Unknown || !v.class("GET /b").Unknown {
		t.Error("who has answered is unknown, or who has not is known")
	}
	if got := v.ask("", "GET /b 200"); !got.Changed || !v.m.Silent() {
		t.Errorf("the second answer: %+v", got)
	}
	if v.class("GET /new").Unknown || v.class("GET /waiting").Unknown {
		t.Error("somebody has to go alone")
	}
	version := v.m.Version()
	if got := v.ask("", "GET /a 200"); got.Changed || v.m.Version() != version {
		t.Error("the third answer changes something")
	}
	v.ask("", "GET /a 200"+triple(10, 9, 60))
	if v.m.Silent() || !v.class("GET /another").Unknown {
		t.Error("it is still silent")
	}
}

// TestWhatIsUsedSaysNothingOfWhatIsLeft: a site that tells only what is used, as Binance does, has a limit to be found, as a silent site.
func TestWhatIsUsedSaysNothingOfWhatIsLeft(t *testing.T) {
	v := visiting(t, "api.binance.com")
	for used := range 3 {
		if got := v.ask("", fmt.Sprintf("GET /a 200 | X-Mbx-Used-Weight-1m: %d", used)); len(got.Announcements) != 1 || v.m.Announces() {
			t.Errorf("%d used: %+v, announced: %v", used, got.Announcements, v.m.Announces())
		}
	}
	if !v.m.Silent() {
		t.Error("the site is not silent")
	}
	if v.ask("", "GET /a 200"+triple(10, 9, 60)); !v.m.Announces() {
		t.Error("what is left announces nothing")
	}
}

func TestOneAnswerWithoutHeadersIsNoProof(t *testing.T) {
	v := visiting(t, "h.test")
	v.ask("one", "GET /a 200"+triple(100, 99, 600))
	v.ask("one", "GET /b 200"+triple(100, 98, 600))
	v.ask("one", "GET /static 502")
	if c := v.class("GET /static"); c.Unknown || len(c.Limits) != 1 {
		t.Errorf("after an error it is %+v", c)
	}
	v.ask("one", "GET /static 200")
	v.ask("one", "GET /static 200")
	if c := v.class("GET /static"); len(c.Limits) != 0 {
		t.Errorf("after three answers without limits it is %+v", c)
	}
}

func TestAMarkOfTooManyInFlightIsNoLimit(t *testing.T) {
	v := visiting(t, "acme.okta.com")
	got := v.ask("one", "GET /api/v1/users 429 | X-Rate-Limit-Limit: 0 | X-Rate-Limit-Remaining: 0 | X-Rate-Limit-Reset: {40}")
	if len(got.Announcements) != 0 {
		t.Errorf("told %+v", got.Announcements)
	}
}

func TestHiddenLimits(t *testing.T) {
	v := visiting(t, "quiet.test")
	v.ask("", "GET /a 200")
	v.ask("", "GET /b 200")
	id, changed := v.m.AddHidden(v.class("GET /a"), false)
	if !changed || !slices.Equal(v.ids("GET /a"), []string{id}) || len(v.ids("GET /b")) != 0 {
		t.Errorf("%q, changed %v: %v and %v", id, changed, v.ids("GET /a"), v.ids("GET /b"))
	}
	if l := v.class("GET /a").Limits[0]; l.Kind != Hidden || l.Title != status.HiddenTitle || v.m.Identity(id) != "hidden/GET /a" {
		t.Errorf("it is %+v", l)
	}
	if again, changed := v.m.AddHidden(v.class("GET /a"), false); again != id || changed {
		t.Errorf("again it is %q, changed %v", again, changed)
	}
	wide, changed := v.m.AddHidden(v.class("GET /a"), true)
	if !changed || wide == id || !slices.Equal(v.ids("GET /b"), []string{wide}) || !slices.Equal(v.ids("GET /new"), []string{wide}) || len(v.ids("GET /a")) != 2 {
		t.Errorf("%q, changed %v: %v, %v and %v", wide, changed, v.ids("GET /a"), v.ids("GET /b"), v.ids("GET /new"))
	}
	if again, changed := v.m.AddHidden(v.class("GET /b"), true); again != wide || changed {
		t.Errorf("again it is %q, changed %v", again, changed)
	}
	if got := v.ask("", "GET /a 200"); got.Changed || len(v.ids("GET /a")) != 2 {
		t.Error("an answer makes it another")
	}
}

// TestARouteWithAHiddenLimitKeepsItsName where it is one of many names, also over a restart: no other is held by its limit.
func TestARouteWithAHiddenLimitKeepsItsName(t *testing.T) {
	v := visiting(t, "quiet.test")
	v.ask("", "GET /a/limited 200")
	v.ask("", "GET /a/limited 200")
	id, _ := v.m.AddHidden(v.class("GET /a/limited"), false)
	for n := range 2 * mostKids {
		v.ask("", "GET /a/"+word(n)+" 200")
	}
	for _, when := range []string{"at first", "after a restart"} {
		if name := v.class("GET /a/other").Route; !slices.Equal(v.ids("GET /a/limited"), []string{id}) || len(v.ids("GET /a/other")) != 0 || !strings.HasSuffix(name, "/a/*") {
			t.Errorf("%s: %v, and %s %v; the limit is %s", when, v.ids("GET /a/limited"), name, v.ids("GET /a/other"), id)
		}
		if err := v.m.Restore(v.m.State()); err != nil {
			t.Fatal(err)
		}
	}
	if h := v.m.HiddenOf(v.class("GET /a/limited")); !h.Own || h.Others || h.Proved || !v.m.HiddenOf(v.class("GET /a/other")).Others {
		t.Errorf("it has %+v", h)
	}
	if !v.m.Widen("") || v.m.Widen("") || len(v.ids("GET /a/limited")) != 0 || v.m.Limited() {
		t.Errorf("withdrawn, it holds %v", v.ids("GET /a/limited"))
	}
}

// TestARefusalBeforeASiteIsKnownToBeSilentSaysNothingOfItsRoute: what was refused first may be refused at random.
func TestARefusalBeforeASiteIsKnownToBeSilentSaysNothingOfItsRoute(t *testing.T) {
	v := visiting(t, "quiet.test")
	v.m.AddHidden(v.class("GET /a"), false)
	v.ask("", "GET /a 429")
	v.ask("", "GET /a 200")
	if h := v.m.HiddenOf(v.class("GET /a")); h.Own || h.Others {
		t.Errorf("it has %+v", h)
	}
}
