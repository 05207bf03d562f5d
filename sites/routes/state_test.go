package routes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/sites/ledger"
)

// lived is a site of which something of everything is known.
func lived(t *testing.T) *visit {
	v := visiting(t, "h.test")
	v.say("one", "/a", 75, 74, 900, ledger.Surprise{})
	v.say("one", "/b", 900, 899, 900, ledger.Surprise{})
	v.say("one", "/c", 900, 899, 990, ledger.Surprise{})
	v.ask("one", "GET /users/77/x 200 | x-ratelimit-limit: 5000 | x-ratelimit-remaining: 60 | x-ratelimit-reset: {3600} | x-ratelimit-resource: core")
	v.ask("one", "GET /users/77/y 200 | x-ratelimit-limit: 5000 | x-ratelimit-remaining: 60 | x-ratelimit-reset: {3600} | x-ratelimit-resource: core")
	v.m.AddHidden(v.class("GET /hidden"), false)
	v.m.AddHidden(v.class("GET /hidden"), true)
	v.class("GET /asked/for/only")
	return v
}

// TestPathsWithoutLimitsStayWithoutAfterARestart: a page with many images announces nothing, and one of its paths does.
func TestPathsWithoutLimitsStayWithoutAfterARestart(t *testing.T) {
	v := visiting(t, "h.test")
	for n := range 3 * mostKids {
		v.ask("one", fmt.Sprintf("GET /img%d.png 200 |", n))
	}
	v.say("one", "/lim/4", 5, 4, 5, ledger.Surprise{})
	n := &visit{T: t, m: New(), host: v.host, now: v.now}
	if err := n.m.Restore(v.m.State()); err != nil {
		t.Fatal(err)
	}
	for path, limits := range map[string]int{"GET /img3.png": 0, "GET /other.png": 0, "GET /lim/5": 1} {
		if c := n.class(path); len(c.Limits) != limits || len(v.class(path).Limits) != limits {
			t.Errorf("%s was under %v, and is under %v", path, v.class(path).Limits, c.Limits)
		}
	}
}

func TestWhatIsKnownIsRememberedAcrossRestarts(t *testing.T) {
	v := lived(t)
	text := v.m.State()
	if bytes.Contains(text, []byte("one")) {
		t.Errorf("a budget is in %s", text)
	}
	n := &visit{T: t, m: New(), host: v.host, now: v.now}
	old := n.m.Version()
	if err := n.m.Restore(text); err != nil {
		t.Fatal(err)
	}
	if n.m.Version() <= old {
		t.Error("the version is not larger")
	}
	for _, one := range []string{"GET /a", "GET /b", "GET /c", "GET /users/1/x", "GET /users/2/y", "GET /hidden"} {
		a, b := v.class(one), n.class(one)
		if !reflect.DeepEqual(a.Limits, b.Limits) || b.Unknown || b.Route != a.Route {
			t.Errorf("%s was %+v and is %+v", one, a, b)
		}
	}
	if !n.class("GET /new").Unknown {
		t.Error("a new route is known")
	}
	// What comes next has names of its own.
	told, _ := n.say("one", "/d", 33, 32, 900, ledger.Surprise{})
	if v.m.catalog.groups[told.ID] != nil {
		t.Errorf("%q is an old name", told.ID)
	}
	if again := n.m.State(); len(again) <= len(text) {
		t.Errorf("the state afterwards is %s", again)
	}
	m := New()
	if err := m.Restore(text); err != nil || !bytes.Equal(m.State(), text) {
		t.Errorf("%v: the state is\n%s and was\n%s", err, m.State(), text)
	}
}

func TestASilentSiteIsRemembered(t *testing.T) {
	v := visiting(t, "h.test")
	v.ask("", "GET /a 200")
	v.ask("", "GET /a 200")
	m := New()
	if err := m.Restore(v.m.State()); err != nil || !m.Silent() || m.Class("GET", "", "/b", 0).Unknown {
		t.Errorf("%v: silent %v", err, m.Silent())
	}
}

func TestADamagedStateChangesNothing(t *testing.T) {
	v := lived(t)
	before := v.m.State()
	group := func(n int, text string) string {
		return fmt.Sprintf(`{"id":"g%d","number":%d%s}`, n, n, text)
	}
	var many []string
	for n := range mostGroups + 1 {
		many = append(many, group(n+1, fmt.Sprintf(`,"name":"n%d"`, n)))
	}
	for name, text := range map[string]string{
		"nothing":         "",
		"no JSON":         "{",
		"another version": `{"version":2}`,
		"no name":         `{"version":1,"groups":[{"number":1}]}`,
		"a long name":     `{"version":1,"groups":[{"number":1,"id":"` + strings.Repeat("a", 200) + `"}]}`,
		"out of order":    `{"version":1,"groups":[` + group(2, "") + "," + group(1, "") + `]}`,
		"there twice":     `{"version":1,"groups":[` + group(1, `,"bucket":"b"`) + "," + group(2, `,"bucket":"b"`) + `]}`,
		"too many":        `{"version":1,"groups":[` + strings.Join(many, ",") + `]}`,
		"not hidden":      `{"version":1,"wide":"g1","groups":[` + group(1, "") + `]}`,
		"too large":       `{"version":1}` + strings.Repeat(" ", longestState),
	} {
		version := v.m.Version()
		if err := v.m.Restore([]byte(text)); err == nil || v.m.Version() != version {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !bytes.Equal(v.m.State(), before) {
		t.Error("something has changed")
	}
}

func TestAnyStateIsBounded(t *testing.T) {
	words := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "*", "core", "g1", "g2", "\x00"}), rapid.StringN(0, 20, 300))
	rapid.Check(t, func(t *rapid.T) {
		s := state{Version: 1, Answers: rapid.Int().Draw(t, "answers"), Made: rapid.Uint64().Draw(t, "made"), Wide: words.Draw(t, "wide")}
		for n := range rapid.IntRange(0, 20).Draw(t, "groups") {
			s.Groups = append(s.Groups, groupState{
				ID: fmt.Sprint("g", n), Number: uint64(n) + 1, Covers: words.Draw(t, "covers"), Hidden: rapid.Bool().Draw(t, "hidden"),
				Bucket: words.Draw(t, "bucket"), Name: words.Draw(t, "name"), Partition: words.Draw(t, "partition"),
				Unit: words.Draw(t, "unit"), Window: rapid.Int64().Draw(t, "window"),
			})
		}
		for range rapid.IntRange(0, 20).Draw(t, "routes") {
			s.Routes = append(s.Routes, routeState{
				Method: words.Draw(t, "method"), Host: words.Draw(t, "host"), Path: words.Draw(t, "path"),
				Hidden: words.Draw(t, "hides"), Limits: rapid.SliceOfN(words, 0, 40).Draw(t, "limits"),
				Seen: rapid.SliceOf(rapid.Int64()).Draw(t, "seen"),
			})
		}
		text, _ := json.Marshal(s)
		m := New()
		if m.Restore(text) == nil {
			checkBounds(t, m)
		}
	})
}
