package routes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites/ledger"
)

// checkBounds is what holds whatever has come.
func checkBounds(t *rapid.T, m *Table) {
	parted := m.catalog.ofEntities()
	if len(m.tree.known) > mostRoutes || len(m.catalog.common) > mostGroups || parted > mostEntityLimits+spareEntityLimits || len(m.catalog.hidden) > mostHidden || len(m.catalog.partitions) > mostGroups || len(m.catalog.hiddenOf) > mostRoutes {
		t.Fatalf("%d routes, %d limits of %d parts, %d hidden, %d partitions", len(m.tree.known), len(m.catalog.groups), parted, len(m.catalog.hidden), len(m.catalog.partitions))
	}
	counts, bearing := map[*group]int{}, map[*host]int{}
	for name, r := range m.tree.known {
		c := r.class
		if name != r.name || c.Route != name || !slices.Contains(r.place.routes, r) {
			t.Fatalf("%q is %q with %+v", name, r.name, c)
		}
		if len(c.Limits) > mostMembers+2 {
			t.Fatalf("%q has %d limits", name, len(c.Limits))
		}
		if len(r.members) > 0 {
			bearing[r.place.host]++
		}
		for n := range r.members {
			g := r.members[n].group
			counts[g]++
			if m.catalog.groups[g.id] != g || g.key.entity != "" && g.key.entity != r.place.entity.name {
				t.Fatalf("%q of %q is under %q of %q", name, r.place.entity.name, g.id, g.key.entity)
			}
		}
		if r.place.entity.segment == 0 && c.Template != name || m.tree.lookup(r.method, r.place.host.name, strings.TrimPrefix(r.place.text, "/"), r.place.entity.segment) != r {
			t.Fatalf("%q is not found, or is %q", name, c.Template)
		}
		for _, l := range c.Limits {
			g := m.catalog.groups[l.ID]
			if r.at == m.version && (g == nil || g.kind != l.Kind || g.title != l.Title) {
				t.Fatalf("%q has the limit %+v, which is %+v", name, l, g)
			}
			if len(l.ID) > longestID || len(l.Title) > longestTitle || !printable(l.ID+l.Title) || l.ID == "" || l.Title == "" {
				t.Fatalf("a limit is %+v", l)
			}
		}
	}
	for id, g := range m.catalog.groups {
		if g.id != id || g.routes != counts[g] || len(g.budgets) > mostBudgets {
			t.Fatalf("%q is %+v, in %d routes", id, g, counts[g])
		}
		if g.kind == Announced && slices.Contains(m.catalog.common, g) != (g.key.entity == "") {
			t.Fatalf("%q is of %q", id, g.key.entity)
		}
		if g.kind == Announced && !slices.Contains(m.catalog.announced[bucketKey{g.bucket, g.key}].groups, g) {
			t.Fatalf("%q is not found", id)
		}
	}
	for _, h := range m.tree.hosts {
		if h.limited != bearing[h] {
			t.Fatalf("%q has %d routes with limits, not %d", h.name, bearing[h], h.limited)
		}
	}
}

func TestWhateverIsLearnedStaysInBounds(t *testing.T) {
	words := rapid.OneOf(
		rapid.SampledFrom([]string{"", "core", "search", "requests", "/", "#1", "\xff\x00", strings.Repeat("long ", 60)}),
		rapid.StringN(0, 5, 20),
	)
	few := rapid.SampledFrom([]string{"", "", "", "b", "c"})
	number := rapid.OneOf(
		rapid.SampledFrom([]float64{0, 1, 2, 3, 75, 900, 1e300, -1, math.NaN(), math.Inf(1)}),
		rapid.Float64Range(0, 10),
	)
	paths := rapid.OneOf(
		rapid.SampledFrom([]string{"/a", "/b", "/c/1", "/c/d/e", "", "/*"}),
		rapid.Map(rapid.IntRange(0, 60), func(n int) string { return "/names/" + word(n) + "/x" }),
		rapid.Map(rapid.IntRange(0, 3), func(n int) string { return fmt.Sprintf("/c/%d/e", n) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		now := noon
		amount := func(name string) learn.Amount {
			return learn.Amount{N: number.Draw(t, name), Known: rapid.IntRange(0, 4).Draw(t, name+" known") > 0}
		}
		var classes []*Class
		var copies []Class
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 5000, 4000000, -1000}).Draw(t, "ms")) * time.Millisecond)
			c := m.Class(rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"), few.Draw(t, "host"), paths.Draw(t, "path"), rapid.SampledFrom([]int{0, 2, 2, 3, 99, -1}).Draw(t, "apart"))
			classes, copies = append(classes, c), append(copies, *c)
			c = rapid.SampledFrom(classes).Draw(t, "class") // it may be old
			version := m.Version()
			if rapid.IntRange(0, 19).Draw(t, "what") == 0 {
				id, changed := m.AddHidden(c, rapid.IntRange(0, 9).Draw(t, "wide") == 0)
				again, twice := m.AddHidden(c, false)
				if id == "" || changed && m.Version() == version || again == "" || twice && again == id {
					t.Fatalf("hidden %q, changed %v; then %q, %v", id, changed, again, twice)
				}
				continue
			}
			lesson := learn.Lesson{
				Throttled: rapid.Bool().Draw(t, "throttled"), Concurrency: rapid.IntRange(0, 9).Draw(t, "concurrency") == 0,
				Scope: learn.Scope(rapid.IntRange(0, 3).Draw(t, "scope")), Bucket: few.Draw(t, "lesson's"),
				Documented: learn.Scope(rapid.IntRange(0, 3).Draw(t, "documented")),
			}
			for range rapid.IntRange(0, 4).Draw(t, "limits") {
				l := learn.Limit{
					Name: few.Draw(t, "name"), Bucket: few.Draw(t, "bucket"), Unit: learn.Unit(few.Draw(t, "unit")),
					Limit: amount("limit"), Remaining: amount("left"), Scope: learn.Scope(rapid.IntRange(0, 3).Draw(t, "limit's")),
					Reset:  now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "reset")) * time.Second),
					Window: time.Duration(rapid.IntRange(-1, 2).Draw(t, "window")) * time.Minute,
					Other:  rapid.IntRange(0, 9).Draw(t, "other") == 0,
				}
				switch rapid.IntRange(0, 9).Draw(t, "odd") {
				case 0:
					l.Name, l.Bucket, l.Partition = words.Draw(t, "any name"), words.Draw(t, "any bucket"), words.Draw(t, "any part")
				case 1:
					l.Reset = time.Time{}
				}
				lesson.Limits = append(lesson.Limits, l)
			}
			budget := few.Draw(t, "budget")
			got := m.Learn(now, c, budget, now.Add(-time.Second), &lesson)
			if got.Changed != (m.Version() > version) {
				t.Fatalf("changed is %v, from version %d to %d", got.Changed, version, m.Version())
			}
			newest := m.routeOf(c).class
			seen := map[string]bool{}
			for _, told := range got.Announcements {
				if seen[told.ID] || !slices.ContainsFunc(newest.Limits, func(l Limit) bool { return l.ID == told.ID }) {
					t.Fatalf("told %q, twice %v, of %+v", told.ID, seen[told.ID], newest)
				}
				seen[told.ID] = true
				news := ledger.Surprise{Foreign: int64(rapid.IntRange(-1, 9).Draw(t, "foreign")), Higher: rapid.Bool().Draw(t, "higher")}
				version := m.Version()
				changed := m.Explain(now, c, budget, told.ID, now.Add(-time.Second), news)
				if changed != (m.Version() > version) {
					t.Fatalf("changed is %v, from version %d to %d", changed, version, m.Version())
				}
			}
			checkBounds(t, m)
		}
		for n, c := range classes {
			if c.Route != copies[n].Route || c.Unknown != copies[n].Unknown || !slices.Equal(c.Limits, copies[n].Limits) {
				t.Fatalf("the class %+v was %+v", c, copies[n])
			}
		}
	})
}

func benchRoutes() *Table {
	m := New()
	for n := range 1000 {
		m.Class("GET", "", fmt.Sprintf("/2/%s/5/%s", word(n/20%20), word(n%20)), 0)
	}
	return m
}

func BenchmarkClass(b *testing.B) {
	m := benchRoutes()
	m.Class("GET", "", "/2/tweets/1460323737035677698/retweeted_by", 0)
	for name, path := range map[string]string{
		"short": "/users", "usual": "/2/tweets/1460323737035677697/retweeted_by",
		"long": "/api/v10/guilds/41771983423143937/members/80351110224678912/roles/41771983423143936",
	} {
		m.Class("GET", "", path, 0)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Class("GET", "", path, 0)
			}
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	m := benchRoutes()
	var silent learn.Lesson
	c := m.Class("GET", "", "/2/tweets/1460323737035677697/retweeted_by", 0)
	b.Run("silent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Learn(noon, c, "token", noon, &silent)
		}
	})
	lesson := learn.Lesson{Scope: learn.Token, Limits: []learn.Limit{{
		Limit: learn.Amount{N: 75, Known: true}, Remaining: learn.Amount{N: 60, Known: true},
		Reset: noon.Add(900 * time.Second), Resolution: time.Second,
	}}}
	b.Run("one limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Learn(noon, c, "token", noon, &lesson)
		}
	})
}

func TestTheUsualCallsAllocateNothing(t *testing.T) {
	m := benchRoutes()
	var silent learn.Lesson
	c := m.Class("GET", "", "/2/tweets/1460323737035677697/retweeted_by", 0)
	m.Learn(noon, c, "token", noon, &silent)
	m.Learn(noon, c, "token", noon, &silent)
	if n := testing.AllocsPerRun(100, func() {
		c = m.Class("GET", "", "/2/tweets/1460323737035677698/retweeted_by", 0)
		m.Learn(noon, c, "token", noon, &silent)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
