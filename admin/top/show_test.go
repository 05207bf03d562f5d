package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
)

// BenchmarkRefreshOfAThousandSites is one refresh of the screen: what a key waits for at most.
func BenchmarkRefreshOfAThousandSites(b *testing.B) {
	begun := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	var first, second sample
	for i := range 1000 {
		item := site(fmt.Sprintf("site-%d.example.com", i))
		item.Held, item.LimitedBy = i%7, "900 requests per 15m"
		first.sites.Sites = append(first.sites.Sites, item)
		item.Rate.Requests = float64(i)
		second.sites.Sites = append(second.sites.Sites, item)
	}
	first.at, second.at = begun, begun.Add(time.Second)
	s := newScreen(Options{Source: newCanned()}, func() {})
	terminal := tcell.NewSimulationScreen("UTF-8")
	s.app.SetScreen(terminal)
	defer terminal.Fini()
	terminal.SetSize(200, 50)
	s.take(first, nil)
	for b.Loop() {
		s.take(second, nil)
		s.app.ForceDraw()
	}
}
