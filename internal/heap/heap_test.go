package heap

import (
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	seq   uint64
	place int32
}

type bySeq struct{}

func (bySeq) Before(a, b *item) bool { return a.seq < b.seq }
func (bySeq) Place(i *item) *int32   { return &i.place }

func TestAHeapGivesItsItemsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*item, bySeq]
		in := map[*item]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				added := &item{seq: rapid.Uint64().Draw(t, "seq")}
				h.Push(added)
				in[added] = true
			},
			"change": func(t *rapid.T) {
				if !h.Empty() {
					item := rapid.SampledFrom(h.items).Draw(t, "item")
					item.seq = rapid.Uint64().Draw(t, "seq")
					h.Put(item)
				}
			},
			"remove": func(t *rapid.T) {
				if !h.Empty() {
					item := rapid.SampledFrom(h.items).Draw(t, "item")
					h.Remove(item)
					delete(in, item)
					if h.Has(item) {
						t.Fatal("it is still there")
					}
				}
			},
			"pop": func(t *rapid.T) {
				if !h.Empty() {
					first := h.Top()
					if got := h.Pop(); got != first || h.Has(got) || len(h.items) != len(in)-1 {
						t.Fatalf("it gave %v of %d, not %v", got, len(in), first)
					}
					delete(in, first)
				}
			},
			"": func(t *rapid.T) {
				if len(h.items) != len(in) {
					t.Fatalf("%d items, should be %d", len(h.items), len(in))
				}
				for i, item := range h.items {
					if int(item.place) != i+1 {
						t.Fatalf("item %d thinks it is %d", i, item.place-1)
					}
					if parent := h.items[max(i-1, 0)/2]; i > 0 && item.seq < parent.seq {
						t.Fatal("out of order")
					}
				}
			},
		})
	})
}
