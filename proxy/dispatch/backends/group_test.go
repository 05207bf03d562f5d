package backends

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

func TestTheBalanceOfBackends(t *testing.T) {
	now := time.Now()
	all := []int{0, 1, 2}
	p := equals(3, "round-robin")
	times := map[int]int{}
	for range 9 {
		i := p.pick(all, "", now)
		times[i]++
	}
	for i, n := range times {
		if n != 3 {
			t.Errorf("round-robin: %d of 9 went to %d", n, i)
		}
	}
	p = equals(3, "least-loaded")
	p.Hosts[0].Load.inFlight.Store(2)
	p.Hosts[1].Load.inFlight.Store(1)
	p.Hosts[2].Load.inFlight.Store(3)
	if i := p.pick(all, "", now); i != 1 {
		t.Errorf("least-loaded: %d", i)
	}
	if i := p.pick([]int{0, 2}, "", now); i != 0 {
		t.Errorf("least-loaded of those that are ready: %d", i)
	}

	p = equals(3, "adaptive")
	p.Hosts[0].Load.Add(time.Second, Well, now)
	p.Hosts[1].Load.Add(50*time.Millisecond, Well, now)
	p.Hosts[2].Load.Add(50*time.Millisecond, Ill, now)
	if i := p.pick(all, "", now); i != 1 {
		t.Errorf("adaptive: %d", i)
	}
	p.Hosts[1].Load.inFlight.Store(100)
	if i := p.pick(all, "", now); i == 1 {
		t.Error("adaptive: the fast one has all of them")
	}
	p.Hosts[1].Load.inFlight.Store(1)
	later := now.Add(10 * time.Minute)
	p.Hosts[1].Load.Add(50*time.Millisecond, Well, later)
	if i := p.pick(all, "", later); i == 1 {
		t.Error("adaptive: what failed long ago is never tried again")
	}

	p.sticky = true
	who := map[int]int{}
	for i := range 300 {
		client := fmt.Sprint(i)
		first := p.pick(all, client, now)
		who[first]++
		if p.pick(all, client, later) != first {
			t.Error("a client does not stay")
		}
		var rest []int
		for _, i := range all {
			if i != first {
				rest = append(rest, i)
			}
		}
		if p.pick(rest, client, now) == first {
			t.Error("a client stays where nobody is ready")
		}
	}
	for i, n := range who {
		if n < 50 {
			t.Errorf("%d of 300 clients stick to %d", n, i)
		}
	}
}

// equals is a group of n backends.
func equals(n int, balance string) *Group {
	p := &Group{balance: balance}
	weights := make([]int, n)
	for i := range n {
		name := fmt.Sprintf("b%d.test", i)
		p.Hosts = append(p.Hosts, Backend{Name: name, Target: policy.Target{Scheme: "https", Host: name, Port: 443}, Load: &Load{}, weight: 1})
		weights[i] = 1
	}
	p.rotation = newRotation(weights)
	return p
}

// pick chooses as the queue does by the ranks of hosts.
func (g *Group) pick(ready []int, client string, now time.Time) int {
	first := slices.MinFunc(ready, func(a, b int) int {
		x, y := g.Rank(a, client, now), g.Rank(b, client, now)
		return slices.Compare(x[:], y[:])
	})
	g.Chosen(first)
	return first
}
