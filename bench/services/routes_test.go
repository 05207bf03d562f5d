package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRoutesUnderOneLimitAreCrawledAsOne: ten routes that share a limit of windows or of a bucket are refused about as often as one.
// A search that has a limit of its own does not slow items down, whether it comes before them or among them.
func TestRoutesUnderOneLimitAreCrawledAsOne(t *testing.T) {
	t.Parallel()
	list := slices.DeleteFunc(routedServices(), func(s *service) bool {
		equal := s.source == "ten equal routes" && (strings.HasSuffix(s.name, "in turn") || strings.HasSuffix(s.name, "at random"))
		two := s.source == "a route and all" && strings.Contains(s.name, "of 1 a second") && !strings.HasSuffix(s.name, "last")
		return strings.HasPrefix(s.name, "paced") || strings.HasPrefix(s.name, "long window") || !equal && !two
	})
	cells := crawlRouted(list, 1, 8, 16)
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			t.Fatal(c.err)
		}
		t.Logf("%s, %s, %d clients: %.2f × ideal, %d refused", c.service.source, c.service.name, c.clients, c.ratio, c.refused)
		most := 2.2
		if strings.HasSuffix(c.service.name, "searches first") {
			most = 2.3 // both limits refuse within a second
		}
		if c.ratio > most || c.refused > 44 || c.errors > 0 {
			t.Errorf("%s, %s, %d clients: %.2f × ideal, %d refused, %d errors", c.service.source, c.service.name, c.clients, c.ratio, c.refused, c.errors)
		}
	}
}
