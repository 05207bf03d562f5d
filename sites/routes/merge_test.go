package routes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/sites/ledger"
)

// say hears an answer of a site without a dialect, and what its ledger says of it.
func (v *visit) say(budget, path string, limit, left, reset int, news ledger.Surprise) (Announcement, bool) {
	v.Helper()
	sent := v.now
	got := v.ask(budget, "GET "+path+" 200"+triple(limit, left, reset))
	if len(got.Announcements) != 1 {
		v.Fatalf("told %+v", got.Announcements)
	}
	changed := v.m.Explain(v.now, v.class("GET "+path), budget, got.Announcements[0].ID, sent, news)
	return got.Announcements[0], got.Changed || changed
}

func TestALimitOfTheSameAmountIsTakenForTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		budget           string
		wait             time.Duration
		limit, left, end int
		same             bool
	}{
		"the next unit":                {"one", 0, 75, 73, 900, true},
		"fewer":                        {"one", 0, 75, 20, 900, true},
		"more than there was":          {"one", 0, 75, 75, 900, false},
		"another amount":               {"one", 0, 76, 73, 900, false},
		"another end":                  {"one", 0, 75, 73, 930, false},
		"nearly the same end":          {"one", 0, 75, 73, 902, true},
		"another budget, another end":  {"two", 0, 75, 74, 930, true},
		"another window":               {"one", time.Hour, 75, 74, 4600, true},
		"the other window is over now": {"one", 900 * time.Second, 75, 74, 1800, true},
	} {
		v := visiting(t, "h.test")
		v.say("one", "/a", 75, 74, 900, ledger.Surprise{})
		v.now = v.now.Add(c.wait)
		v.say(c.budget, "/b", c.limit, c.left, c.end, ledger.Surprise{})
		if same := slices.Equal(v.ids("GET /a"), v.ids("GET /b")); same != c.same {
			t.Errorf("%s: %v and %v", name, v.ids("GET /a"), v.ids("GET /b"))
		}
	}
}

func TestARouteThatShowsMoreTwiceIsSplitOff(t *testing.T) {
	v := visiting(t, "h.test")
	v.say("one", "/a", 75, 20, 900, ledger.Surprise{})
	v.say("two", "/b", 75, 74, 950, ledger.Surprise{})
	v.sameIDs("GET /a", "GET /b")
	if _, changed := v.say("one", "/b", 75, 60, 900, ledger.Surprise{Higher: true}); changed {
		t.Error("once is enough")
	}
	v.sameIDs("GET /a", "GET /b")
	if _, changed := v.say("one", "/b", 75, 59, 900, ledger.Surprise{Higher: true}); !changed {
		t.Error("twice is not enough")
	}
	v.otherIDs("GET /a", "GET /b")
	// It is known by now which is which.
	for n := range 5 {
		if _, changed := v.say("one", "/a", 75, 19-n, 900, ledger.Surprise{}); changed {
			t.Error("/a has changed")
		}
		if _, changed := v.say("one", "/b", 75, 58-n, 900, ledger.Surprise{}); changed {
			t.Error("/b has changed")
		}
	}
	v.otherIDs("GET /a", "GET /b")
}

func TestOneRouteAloneIsNotSplit(t *testing.T) {
	v := visiting(t, "h.test")
	for range 5 {
		if _, changed := v.say("one", "/a", 75, 60, 900, ledger.Surprise{Higher: true}); changed && v.m.Version() > 1 {
			t.Error("it has changed")
		}
	}
	if len(v.m.catalog.groups) != 1 {
		t.Errorf("there are %d limits", len(v.m.catalog.groups))
	}
}

func TestARouteWithAnotherResetIsSplitOff(t *testing.T) {
	v := visiting(t, "h.test")
	v.say("one", "/a", 75, 74, 900, ledger.Surprise{})
	v.say("two", "/b", 75, 74, 950, ledger.Surprise{}) // taken for the same
	v.sameIDs("GET /a", "GET /b")
	for n := range 3 {
		v.say("one", "/a", 75, 73-n, 900, ledger.Surprise{})
		v.say("one", "/b", 75, 70-n, 860, ledger.Surprise{})
	}
	v.otherIDs("GET /a", "GET /b")
}

func TestAResetThatMovesSplitsNothing(t *testing.T) {
	v := visiting(t, "h.test")
	for n := range 40 {
		v.now = v.now.Add(10 * time.Second)
		end := int(v.now.Sub(noon).Seconds()) + 900
		v.say("one", []string{"/a", "/a", "/b"}[n%3], 75, 74, end, ledger.Surprise{})
	}
	if len(v.m.catalog.groups) > 2 {
		t.Errorf("there are %d limits", len(v.m.catalog.groups))
	}
	v.say("one", "/c", 75, 74, int(v.now.Sub(noon).Seconds())+905, ledger.Surprise{})
	if c := v.class("GET /c"); len(c.Limits) != 1 {
		t.Errorf("it is %+v", c)
	}
}

func TestGroupsThatFallTogetherAreMerged(t *testing.T) {
	v := visiting(t, "h.test")
	v.say("one", "/a", 75, 74, 900, ledger.Surprise{})
	v.say("one", "/b", 75, 75, 900, ledger.Surprise{}) // more: another
	v.otherIDs("GET /a", "GET /b")
	left := 74
	var changed bool
	for range 4 {
		left--
		_, item := v.say("one", "/a", 75, left, 900, ledger.Surprise{Foreign: 1})
		left--
		_, two := v.say("one", "/b", 75, left, 900, ledger.Surprise{Foreign: 1})
		changed = changed || item || two
	}
	v.sameIDs("GET /a", "GET /b")
	if !changed || len(v.m.catalog.groups) != 1 {
		t.Errorf("changed %v, %d limits", changed, len(v.m.catalog.groups))
	}
}

func TestUseByOthersAloneMergesNothing(t *testing.T) {
	v := visiting(t, "h.test")
	v.say("one", "/a", 75, 70, 900, ledger.Surprise{})
	v.say("one", "/b", 75, 75, 900, ledger.Surprise{})
	for n := range 15 {
		v.say("one", "/a", 75, 68-2*n, 900, ledger.Surprise{Foreign: 1})
		v.say("one", "/b", 75, 74-n, 900, ledger.Surprise{})
	}
	v.otherIDs("GET /a", "GET /b")
}

func TestSplittingAndMergingEnds(t *testing.T) {
	v := visiting(t, "h.test")
	v.say("one", "/a", 1000, 900, 90000, ledger.Surprise{})
	v.say("one", "/b", 1000, 899, 90000, ledger.Surprise{})
	changes := 0
	for n := range 2000 {
		news := ledger.Surprise{Higher: n%7 == 0, Foreign: 2}
		_, a := v.say("one", "/a", 1000, 800-n/4, 90000, news)
		_, b := v.say("one", "/b", 1000, 800-n/4, 90000, news)
		if a || b {
			changes++
		}
	}
	if changes > 20 {
		t.Errorf("%d changes", changes)
	}
}

func TestAHostileServerMakesABoundedNumberOfLimits(t *testing.T) {
	v := visiting(t, "h.test")
	for n := range 1000 {
		path := fmt.Sprintf("/%s/x", word(n%20))
		v.ask(fmt.Sprint(n), fmt.Sprintf("GET %s 200%s | x-ratelimit-bucket: b%d", path, triple(n, 1, 900), n))
		v.ask(fmt.Sprint(n), "GET "+path+" 200"+triple(100000+n, 1, 900))
	}
	if len(v.m.catalog.groups) > mostGroups {
		t.Errorf("there are %d limits", len(v.m.catalog.groups))
	}
	for _, r := range v.m.tree.known {
		if len(r.class.Limits) > mostMembers {
			t.Errorf("a route has %d limits", len(r.class.Limits))
		}
	}
	for n := range 100 {
		v.m.AddHidden(v.class(fmt.Sprintf("GET /x/%s/%s", word(n/20), word(n%20))), false)
	}
	if len(v.m.catalog.hidden) > mostHidden {
		t.Errorf("there are %d hidden limits", len(v.m.catalog.hidden))
	}
	if len(v.m.catalog.groups) > mostGroups+mostHidden {
		t.Errorf("there are %d limits in all", len(v.m.catalog.groups))
	}
}

func TestBudgetsThatNobodyUsesAreForgotten(t *testing.T) {
	v := visiting(t, "h.test")
	for n := range mostBudgets + 2*spareBudget {
		v.say(fmt.Sprint("token ", n), "/a", 75, 74, 900+n, ledger.Surprise{Foreign: 1})
	}
	for _, g := range v.m.catalog.groups {
		if len(g.budgets) > mostBudgets {
			t.Errorf("%d budgets", len(g.budgets))
		}
	}
}
