// Package heap keeps the first of its items at hand:
//
//	type byTime struct{}
//
//	func (byTime) Before(a, b *call) bool { return a.at.Before(b.at) }
//	func (byTime) Place(c *call) *int32   { return &c.place }
//
//	var calls heap.Heap[*call, byTime]
package heap

// Order compares the items of a heap and finds the field in which an item remembers its place:
// the index plus one, so that zero is "not in this heap". Orders are types
// without fields, so that a heap is no bigger than its slice.
type Order[T any] interface {
	Before(a, b T) bool
	Place(T) *int32
}

// Heap holds items that know their place, so that one in the middle can be moved or removed in
// O(log n). The zero value is empty and ready.
type Heap[T any, O Order[T]] struct {
	items []T
}

// Items returns the items in no particular order. The slice is only to be read, and before the
// heap changes.
func (h *Heap[T, O]) Items() []T { return h.items }

// Empty reports whether the heap has no items.
func (h *Heap[T, O]) Empty() bool { return len(h.items) == 0 }

// Top returns the first item of a heap that is not empty.
func (h *Heap[T, O]) Top() T { return h.items[0] }

// Pop removes the first item of a heap that is not empty, and returns it.
func (h *Heap[T, O]) Pop() T {
	first := h.items[0]
	h.Remove(first)
	return first
}

// Has reports whether an item is in the heap.
func (h *Heap[T, O]) Has(item T) bool {
	var o O
	return *o.Place(item) != 0
}

// Push adds an item that is not in the heap.
func (h *Heap[T, O]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Put adds an item, or restores the order after an item of the heap, and nothing else, has changed.
func (h *Heap[T, O]) Put(item T) {
	var o O
	if at := int(*o.Place(item)) - 1; at < 0 {
		h.Push(item)
	} else if !h.down(at) {
		h.up(at)
	}
}

// Remove takes item out if it is in the heap. It is never compared on the way, so that an item may
// be removed that has lost what it is compared by.
func (h *Heap[T, O]) Remove(item T) {
	var o O
	place := o.Place(item)
	if *place == 0 {
		return
	}
	at, last := int(*place)-1, len(h.items)-1
	*place = 0
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if at != last {
		h.items[at] = moved
		if !h.down(at) {
			h.up(at)
		}
	}
	if n := len(h.items); cap(h.items) > 64 && n < cap(h.items)/4 { // a long queue has left memory behind
		h.items = append(make([]T, 0, 2*n), h.items...)
	}
}

func (h *Heap[T, O]) up(at int) {
	var o O
	item := h.items[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !o.Before(item, h.items[parent]) {
			break
		}
		h.items[at] = h.items[parent]
		*o.Place(h.items[at]) = int32(at + 1)
		at = parent
	}
	h.items[at] = item
	*o.Place(item) = int32(at + 1)
}

// down tells whether the item moved.
func (h *Heap[T, O]) down(at int) bool {
	var o O
	item, from := h.items[at], at
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			break
		}
		if other := child + 1; other < len(h.items) && o.Before(h.items[other], h.items[child]) {
			child = other
		}
		if !o.Before(h.items[child], item) {
			break
		}
		h.items[at] = h.items[child]
		*o.Place(h.items[at]) = int32(at + 1)
		at = child
	}
	h.items[at] = item
	*o.Place(item) = int32(at + 1)
	return at != from
}
