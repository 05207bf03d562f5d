package routes

import "testing"

// Whatever is kept of routes, they are a bounded number, and what they say of themselves
// can be read again.
func FuzzRoutesRestore(f *testing.F) {
	m := New()
	f.Add(m.State())
	m.AddHidden(m.Class("GET", "a.test", "/b/c", 0), true)
	f.Add(m.State())
	f.Fuzz(func(t *testing.T, text []byte) {
		m := New()
		before := m.State()
		if m.Restore(text) != nil {
			if string(m.State()) != string(before) {
				t.Fatal("a refused state changed the routes")
			}
			return
		}
		if len(m.tree.known) > mostRoutes {
			t.Fatalf("there are %d routes", len(m.tree.known))
		}
		m.Class("GET", "a.test", "/b/c", 0)
		seed := m.State()
		if err := New().Restore(seed); err != nil {
			t.Fatalf("its own state: %v: %s", err, seed)
		}
	})
}
