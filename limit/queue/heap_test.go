package queue

import (
	"testing"

	"pgregory.net/rapid"
)

func TestAHeapGivesItsItemsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap[*hold, byArrival]
		in := map[*hold]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				item := &hold{seq: rapid.Uint64().Draw(t, "seq")}
				h.push(item)
				in[item] = true
			},
			"change": func(t *rapid.T) {
				if !h.empty() {
					item := rapid.SampledFrom(h.items).Draw(t, "item")
					item.seq = rapid.Uint64().Draw(t, "seq")
					h.fix(item)
				}
			},
			"remove": func(t *rapid.T) {
				if !h.empty() {
					item := rapid.SampledFrom(h.items).Draw(t, "item")
					h.remove(item)
					delete(in, item)
					if h.has(item) {
						t.Fatal("it is still there")
					}
				}
			},
			"": func(t *rapid.T) {
				if len(h.items) != len(in) {
					t.Fatalf("%d items, should be %d", len(h.items), len(in))
				}
				for i, item := range h.items {
					if int(item.inQueue) != i+1 {
						t.Fatalf("item %d thinks it is %d", i, item.inQueue-1)
					}
					if parent := h.items[max(i-1, 0)/2]; i > 0 && item.seq < parent.seq {
						t.Fatal("out of order")
					}
				}
			},
		})
	})
}
