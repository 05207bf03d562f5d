package queue

import (
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"pgregory.net/rapid"
)

// slackOfBoth is for requests of a client under two limits of bytes: everyone's, and
// each client's own.
func slackOfBoth(client string, all, own int64) Request {
	return Request{Site: "a", Client: client, Limits: [][]Limit{{
		{Name: "requests", N: 1, Spec: tenPerMinute()},
		{Name: "all", Of: Bytes, N: 1, Spec: &limit.Spec{As: limit.Fixed, Amount: all, Window: time.Minute}},
		{Name: "own", Of: Bytes, N: 1, By: ByClient, Spec: &limit.Spec{As: limit.Rolling, Amount: own, Window: time.Hour}},
	}}}
}

// However connections come and go, they have no more than a part of each limit.
func TestAllSlackIsAPartOfEachLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGate(Bounds{}, nil)
		defer g.Close()
		all, own := rapid.Int64Range(1, 1<<20).Draw(t, "all"), rapid.Int64Range(1, 1<<20).Draw(t, "own")
		among := rapid.IntRange(0, 5).Draw(t, "among")
		clients := []string{"x", "x", "y"}
		var taps []*Tap
		for _, c := range clients {
			taps = append(taps, g.Tap(slackOfBoth(c, all, own)))
		}
		type lent struct {
			*Slack
			client string
		}
		var list []lent
		for range 40 {
			if len(list) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				list[i].End()
				list[i].End() // once is enough
				list = append(list[:i], list[i+1:]...)
			} else {
				i := rapid.IntRange(0, len(taps)-1).Draw(t, "tap")
				large := rapid.Int64Range(1, 1<<15).Draw(t, "size")
				if s := taps[i].Slack(among, large, large/2+1); s != nil {
					if n := s.Bytes(); n != large && n != large/2+1 {
						t.Fatalf("%d of %d", n, large)
					}
					list = append(list, lent{s, clients[i]})
				}
			}
			sums := map[string]int64{}
			for _, s := range list {
				sums["all"] += s.Bytes()
				sums[s.client] += s.Bytes()
			}
			parts := int64(slackPart * max(among, 1))
			if sums["all"] > all/parts || max(sums["x"], sums["y"]) > own/parts {
				t.Fatalf("%v of %d and %d among %d", sums, all, own, among)
			}
		}
	})
}

func TestOneConnectionLeavesSlackToOthers(t *testing.T) {
	g := NewGate(Bounds{}, nil)
	defer g.Close()
	tap := g.Tap(bytesOf(64*1000, time.Minute)) // 1000 in all
	for i, want := range []int64{100, 100, 100, 50, 50, 50, 50, 50, 50, 50} {
		s := tap.Slack(1, 5000, 100, 50)
		if s == nil || s.Bytes() != want {
			t.Fatalf("%d: %+v, not %d", i, s, want)
		}
	}
	whole := g.Tap(bytesOf(64*1000, time.Minute))
	if s := whole.Slack(1, 400); s != nil {
		t.Errorf("%d more", s.Bytes())
	}
	s := whole.Slack(1, 350)
	if s == nil {
		t.Fatal("what is left is not lent")
	}
	s.End()
	whole.Close()
	if s := whole.Slack(1, 1); s != nil {
		t.Error("one that is closed lends")
	}
}

func TestHowMuchSlackThereIs(t *testing.T) {
	of := func(s *limit.Spec) Limit { return Limit{Name: "x", Of: Bytes, Spec: s} }
	for want, limits := range map[int64][]Limit{
		math.MaxInt64: {{Name: "requests", Spec: tenPerMinute()}},
		0:             {of(nil), of(&limit.Spec{As: limit.Fixed, Amount: 1 << 30, Window: time.Minute})},
		1 << 14:       {of(&limit.Spec{As: limit.Fixed, Amount: 1 << 30, Window: time.Minute}), of(&limit.Spec{As: limit.Quota, Amount: 1 << 20, Period: limit.Day})},
		1 << 10:       {of(&limit.Spec{As: limit.Bucket, Amount: 1 << 30, Window: time.Minute, Burst: 1 << 16})},
		1 << 24:       {of(&limit.Spec{As: limit.Bucket, Amount: 1 << 30, Window: time.Minute})},
	} {
		if got := SlackOf(limits); got != want {
			t.Errorf("%+v: %d, not %d", limits, got, want)
		}
	}
}

// A tap whose limits become smaller lends less, and what was lent counts.
func TestSlackFollowsTheLimits(t *testing.T) {
	amount := int64(64 * 1000)
	plan := plans(func(r Request) [][]Limit { return bytesOf(amount, time.Minute).Limits })
	g := NewGate(Bounds{}, nil)
	defer g.Close()
	tap := g.Tap(bytesOf(amount, time.Minute))
	s := tap.Slack(1, 600)
	amount /= 2
	g.Reload(Bounds{}, plan)
	if s := tap.Slack(1, 1); s != nil {
		t.Error("there is some left")
	}
	s.End()
	if s := tap.Slack(1, 600); s != nil {
		t.Error("more than there is in all")
	}
	if s := tap.Slack(1, 500); s == nil {
		t.Error("there is nothing")
	}
}
