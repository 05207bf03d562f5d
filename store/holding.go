package store

import (
	"cmp"
	"slices"
	"time"
)

// normal are holdings in order, each window once, and positive.
func normal(holds []Holding) []Holding {
	list := slices.Clone(holds)
	slices.SortFunc(list, func(a, b Holding) int { return cmp.Compare(a.Window, b.Window) })
	n := 0
	for _, h := range list {
		switch h.N = clamp(h.N); {
		case h.N == 0:
		case n > 0 && list[n-1].Window == h.Window:
			list[n-1].N = min(list[n-1].N+h.N, most)
		default:
			list[n] = h
			n++
		}
	}
	return list[:n]
}

func since(holds []Holding, first int64) []Holding {
	i := slices.IndexFunc(holds, func(h Holding) bool { return h.Window >= first })
	if i < 0 {
		return nil
	}
	return holds[i:]
}

func held(holds []Holding, window int64) int64 {
	if i, found := find(holds, window); found {
		return holds[i].N
	}
	return 0
}

// add makes a new list: what is written down is never changed in place.
func add(holds []Holding, window, n int64) []Holding {
	if n <= 0 {
		return holds
	}
	i, found := find(holds, window)
	holds = slices.Clone(holds)
	if found {
		holds[i].N = min(holds[i].N+n, most)
		return holds
	}
	return slices.Insert(holds, i, Holding{Window: window, N: n})
}

func find(holds []Holding, window int64) (int, bool) {
	return slices.BinarySearchFunc(holds, window, func(h Holding, window int64) int {
		return cmp.Compare(h.Window, window)
	})
}

func clamp(n int64) int64 { return min(max(n, 0), most) }

func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
