package routes

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites/ledger"
)

// bucket is what Discord announces of one.
func bucket(id string, left int) string {
	return fmt.Sprintf(" | X-RateLimit-Limit: 5 | X-RateLimit-Remaining: %d | X-RateLimit-Reset-After: 1.250 | X-RateLimit-Bucket: %s", left, id)
}

func TestPartsOfOneNameAreApart(t *testing.T) {
	v := visiting(t, "discord.com")
	for _, one := range []string{
		"GET /api/v10/channels/111/messages", "PATCH /api/v10/channels/111/messages/41771983423143937",
		"GET /api/v10/channels/222/messages", "GET /api/v10/guilds/111/members", "GET /api/v10/channels/111", "GET /api/v10/users/@me",
	} {
		if c := v.class(one); !c.Unknown || len(c.Limits) != 0 {
			t.Errorf("%s is %+v before anything is known of it", one, c)
		}
		v.ask("bot", one+" 200"+bucket("abcd", 3))
	}
	v.sameIDs("GET /api/v10/channels/111/messages", "PATCH /api/v10/channels/111/messages/6")
	v.sameIDs("GET /api/v10/channels/111/messages", "GET /api/v10/channels/111")
	v.otherIDs("GET /api/v10/channels/111/messages", "GET /api/v10/channels/222/messages")
	v.otherIDs("GET /api/v10/channels/111/messages", "GET /api/v10/guilds/111/members")
	v.otherIDs("GET /api/v10/channels/111/messages", "GET /api/v10/users/@me")
	c := v.class("PATCH /api/v10/channels/111/messages/7")
	if c.Route != "PATCH /api/v10/channels/111/messages/*" || c.Template != "PATCH /api/v10/channels/*/messages/*" {
		t.Errorf("it is %q and %q", c.Route, c.Template)
	}
	if got := v.titles("GET /api/v10/channels/111"); got != "5 in channels/111 of abcd" {
		t.Errorf("the title is %q", got)
	}
	if name, routes := v.m.Describe(c.Limits[0].ID); name != "abcd channels/111" || routes != nil {
		t.Errorf("people call it %q, with %v", name, routes)
	}
	if l := c.Limits[0]; l.Entity != "channels/111" {
		t.Errorf("it is %+v", l)
	}
}

func TestALimitOfAllHoldsForEachPart(t *testing.T) {
	v := visiting(t, "discord.com")
	all := learn.Limit{Name: "all", Scope: learn.Token, Limit: learn.Amount{N: 50, Known: true}, Remaining: learn.Amount{N: 40, Known: true}}
	each := learn.Limit{Limit: learn.Amount{N: 5, Known: true}, Remaining: learn.Amount{N: 4, Known: true}}
	for n := range 3 {
		c := v.class(fmt.Sprintf("GET /api/channels/%d/pins", n))
		lesson := learn.Lesson{Scope: learn.Token, Limits: []learn.Limit{all, each}}
		if got := v.m.Learn(v.now, c, "bot", v.now, &lesson); len(got.Announcements) != 2 {
			t.Fatalf("told %+v", got.Announcements)
		}
	}
	a, b := v.ids("GET /api/channels/0/pins"), v.ids("GET /api/channels/1/pins")
	if len(a) != 2 || len(b) != 2 || a[0] != b[0] || a[1] == b[1] {
		t.Errorf("they are under %v and %v", a, b)
	}
	if c := v.class("GET /api/channels/9/pins"); !c.Unknown || len(c.Limits) != 1 || c.Limits[0].ID != a[0] {
		t.Errorf("another is %+v", c)
	}
}

func TestWhatIsHiddenInOnePartIsSoInAll(t *testing.T) {
	v := visiting(t, "discord.com")
	v.ask("bot", "GET /api/channels/1/pins 200"+bucket("abcd", 3))
	v.ask("bot", "GET /api/channels/2/pins 200"+bucket("abcd", 3))
	id, changed := v.m.AddHidden(v.class("GET /api/channels/1/pins"), false)
	again, twice := v.m.AddHidden(v.class("GET /api/channels/2/pins"), false)
	if !changed || twice || id != again {
		t.Errorf("%q, changed %v; then %q, %v", id, changed, again, twice)
	}
	hides := func(m *Table, path string) (ok bool) {
		for _, l := range m.Class("GET", "", path, 3).Limits {
			ok = ok || l.ID == id && l.Kind == Hidden && v.m.Identity(id) == "hidden/GET /api/channels/*/pins"
		}
		return ok
	}
	m := New()
	if err := m.Restore(v.m.State()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Table{v.m, m} {
		if !hides(m, "/api/channels/2/pins") || !hides(m, "/api/channels/3/pins") || hides(m, "/api/guilds/3/pins") || hides(m, "/api/channels/3/x") {
			t.Error("it is hidden in one part only, or everywhere")
		}
	}
}

func TestNoSecretOfAPathIsKept(t *testing.T) {
	const token = "aBcDeFgHiJ-kLmNoPqRsTuVwXyZ0123456789_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123"
	v := visiting(t, "discord.com")
	for _, path := range []string{
		"/api/v10/webhooks/77/" + token, "/api/webhooks/77/" + token + "/messages/1", "/api/v9/webhooks/" + token, "/api/guilds/" + token + "/x",
	} {
		for _, one := range v.ask("bot", "POST "+path+" 200"+bucket("abcd", 3)).Announcements {
			if strings.Contains(one.ID+one.Title+one.Entity, token[:8]) {
				t.Errorf("%+v", one)
			}
		}
		if c := v.class("POST " + path); c.Unknown || strings.Contains(fmt.Sprintf("%+v", c), token[:8]) {
			t.Errorf("%+v", c)
		}
	}
	v.sameIDs("POST /api/v10/webhooks/77/"+token, "POST /api/webhooks/77/"+token+"/messages/2")
	if text := v.m.State(); bytes.Contains(text, []byte(token[:8])) || !bytes.Contains(text, []byte("webhooks/77")) {
		t.Errorf("the state is %s", text)
	}
	for _, name := range v.m.IDs() {
		if strings.Contains(name, token[:8]) {
			t.Error(name)
		}
	}
}

func TestPartsAreRememberedAcrossRestarts(t *testing.T) {
	v := visiting(t, "discord.com")
	for n := range 3 {
		v.ask("bot", fmt.Sprintf("GET /api/v10/channels/%d/messages 200", n)+bucket("abcd", 3))
	}
	v.ask("bot", "GET /api/v10/gateway 200"+bucket("ef", 3))
	text := v.m.State()
	n := &visit{T: t, m: New(), host: v.host, now: v.now}
	if err := n.m.Restore(text); err != nil || !bytes.Equal(n.m.State(), text) {
		t.Fatalf("%v: it was %s and is %s", err, text, n.m.State())
	}
	for _, one := range []string{"GET /api/v10/channels/0/messages", "GET /api/v10/channels/2/messages", "GET /api/v10/gateway"} {
		a, b := v.class(one), n.class(one)
		if fmt.Sprint(a.Limits) != fmt.Sprint(b.Limits) || len(b.Limits) != 1 || b.Unknown || b.Route != a.Route || b.Template != a.Template {
			t.Errorf("%s was %+v and is %+v", one, a, b)
		}
	}
	if c := n.class("GET /api/v10/channels/9/messages"); !c.Unknown {
		t.Errorf("another is %+v", c)
	}
}

// What was written when no value told anything apart is read, and what was known of
// all together says nothing of one.
func TestAStateWithoutPartsIsRead(t *testing.T) {
	v := visiting(t, "discord.com")
	const old = `{"version":1,"announced":true,"answers":2,"made":2,"groups":[
		{"id":"abcd/","number":1,"title":"5 of abcd","bucket":"abcd","amount":5},{"id":"ef/","number":2,"bucket":"ef","amount":5}],
		"routes":[{"method":"GET","path":"/api/v10/channels/*/messages","limits":["abcd/"],"seen":[1700000000]},
		{"method":"GET","path":"/api/v10/gateway","limits":["ef/"]}]}`
	if err := v.m.Restore([]byte(old)); err != nil {
		t.Fatal(err)
	}
	if c := v.class("GET /api/v10/gateway"); c.Unknown || len(c.Limits) != 1 {
		t.Errorf("it is %+v", c)
	}
	if c := v.class("GET /api/v10/channels/1/messages"); !c.Unknown || len(c.Limits) != 0 {
		t.Errorf("one is %+v", c)
	}
	v.ask("bot", "GET /api/v10/channels/1/messages 200"+bucket("abcd", 3))
	v.ask("bot", "GET /api/v10/channels/2/messages 200"+bucket("abcd", 3))
	v.otherIDs("GET /api/v10/channels/1/messages", "GET /api/v10/channels/2/messages")
}

func TestACrawlOfManyPartsIsBounded(t *testing.T) {
	v := visiting(t, "discord.com")
	channel := func(n int) string { return fmt.Sprintf("GET /api/v10/channels/%d/messages", n) }
	kept := func() { v.ask("bot", channel(0)+" 200"+bucket("abcd", 3)) }
	for n := range 5000 {
		v.ask("bot", channel(n)+" 200"+bucket("abcd", 3))
		if n%100 == 0 {
			kept()
		}
		if parted := len(v.m.catalog.groups) - len(v.m.catalog.common); len(v.m.tree.known) > mostRoutes || parted > mostEntityLimits+spareEntityLimits {
			t.Fatalf("%d routes, %d limits of parts", len(v.m.tree.known), parted)
		}
	}
	if v.class(channel(0)).Unknown || v.class(channel(4999)).Unknown {
		t.Error("what was used all the time, or just now, is forgotten")
	}
	if !v.class(channel(1)).Unknown {
		t.Error("what was used long ago is known")
	}
	if n := len(v.m.tree.hosts[""].root.children["api"].children["v10"].children["channels"].values); n > mostRoutes {
		t.Errorf("there are %d places", n)
	}
	v.sameIDs(channel(0), channel(0))
	if len(v.ids(channel(0))) != 1 {
		t.Errorf("it is under %v", v.ids(channel(0)))
	}
}

func TestLimitsOfPartsThatAreNotSeenLeave(t *testing.T) {
	v := visiting(t, "discord.com")
	v.ask("bot", "GET /api/gateway 200"+bucket("all", 3))
	for n := range mostEntityLimits {
		// Each has so many that there are more limits than routes.
		v.ask("bot", fmt.Sprintf("GET /api/channels/%d/pins 200", n/8)+bucket(fmt.Sprint("b", n%8), 3))
	}
	if n := len(v.m.catalog.groups); n != 1+mostEntityLimits {
		t.Fatalf("there are %d", n)
	}
	first := v.class("GET /api/channels/0/pins")
	version := v.m.Version()
	v.ask("bot", "GET /api/channels/x/pins 200"+bucket("b0", 3))
	if n := len(v.m.catalog.groups); n != 1+mostEntityLimits-spareEntityLimits+1 || v.m.Version() == version {
		t.Errorf("there are %d, in version %d after %d", n, v.m.Version(), version)
	}
	if c := v.class("GET /api/channels/0/pins"); !c.Unknown || len(c.Limits) != 0 {
		t.Errorf("it is %+v", c)
	}
	// What was under way meanwhile is heard.
	lesson := learn.Lesson{Limits: []learn.Limit{{Bucket: "b0", Limit: learn.Amount{N: 5, Known: true}}}}
	if got := v.m.Learn(v.now, first, "bot", v.now, &lesson); len(got.Announcements) != 1 || got.Announcements[0].ID != "b0/ channels/0" || v.class("GET /api/channels/0/pins").Unknown {
		t.Errorf("told %+v", got)
	}
	if c := v.class("GET /api/gateway"); c.Unknown {
		t.Errorf("a limit of no part has left: %+v", c)
	}
}

func TestNoPlaceOfAPartStaysForEver(t *testing.T) {
	m := New()
	for n := range 60 {
		for k := range mostKids + 2 {
			m.Class("GET", "", fmt.Sprintf("/channels/%d/%s", n, word(k)), 2)
		}
	}
	for n := range mostRoutes {
		m.Class("GET", fmt.Sprintf("h%d.test", n), "/a", 0)
	}
	if h := m.tree.hosts[""]; h != nil {
		t.Errorf("%d places are left", len(h.root.children["channels"].values))
	}
}

func TestALedgerOfAPartIsForgottenSooner(t *testing.T) {
	for _, part := range []bool{false, true} {
		l := ledger.New(ledger.Options{ShortLived: part})
		l.Take(noon, 1)
		l.Update(noon.Add(time.Second), ledger.Answer{Sent: noon, Units: 1, Limit: learn.Limit{
			Limit: learn.Amount{N: 5, Known: true}, Remaining: learn.Amount{N: 4, Known: true}, Reset: noon.Add(5 * time.Second), Relative: true,
		}})
		l.Done(noon.Add(time.Second), noon, 1, 0)
		if l.Idle(noon.Add(6 * time.Second)) {
			t.Error("it is idle at once")
		}
		if got := l.Idle(noon.Add(time.Minute)); got != part {
			t.Errorf("of a part %v: idle %v", part, got)
		}
	}
}

func TestAPartThatIsKnownAllocatesNothing(t *testing.T) {
	m := New()
	for _, path := range []string{"/api/v10/channels/41771983423143937/messages/7", "/api/v10/channels/" + strings.Repeat("secret", 20) + "/x", "/api/v10/channels/caf\xc3\xa9"} {
		c := m.Class("GET", "", path, 4)
		if n := testing.AllocsPerRun(100, func() {
			if m.Class("GET", "", path, 4) != c {
				t.Fatal("it is another")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}
