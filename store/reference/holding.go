package reference

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// since are the holdings of windows from first on.
func since(holds []store.Holding, first int64) []store.Holding {
	i := slices.IndexFunc(holds, func(h store.Holding) bool { return h.Window >= first })
	if i < 0 {
		return nil
	}
	return holds[i:]
}

func held(holds []store.Holding, window int64) int64 {
	if i, found := find(holds, window); found {
		return holds[i].N
	}
	return 0
}

// add makes a new list: what is written down is never changed in place.
func add(holds []store.Holding, window, n int64) []store.Holding {
	if n <= 0 {
		return holds
	}
	i, found := find(holds, window)
	holds = slices.Clone(holds)
	if found {
		holds[i].N = min(holds[i].N+n, most)
		return holds
	}
	return slices.Insert(holds, i, store.Holding{Window: window, N: n})
}

func find(holds []store.Holding, window int64) (int, bool) {
	return slices.BinarySearchFunc(holds, window, func(h store.Holding, window int64) int {
		return cmp.Compare(h.Window, window)
	})
}

// micro is a number of microseconds.
func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
