package queue

// order compares the items of a heap and finds the field in which an item remembers its place:
// the index plus one, so that zero is "not in this heap". Orders are types
// without fields, so that a heap is no bigger than its slice.
type order[T any] interface {
	before(a, b T) bool
	place(T) *int32
}

// heap keeps the first of its items at hand. Items know their place, so that
// one in the middle can be moved or removed in O(log n). The zero value is
// empty and ready.
type heap[T any, O order[T]] struct {
	items []T
}

func (h *heap[T, O]) empty() bool { return len(h.items) == 0 }

// top is the first item of a heap that is not empty.
func (h *heap[T, O]) top() T { return h.items[0] }

func (h *heap[T, O]) has(item T) bool {
	var o O
	return *o.place(item) != 0
}

func (h *heap[T, O]) push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// fix restores the order after item, and nothing else, has changed.
func (h *heap[T, O]) fix(item T) {
	var o O
	at := int(*o.place(item)) - 1
	if !h.down(at) {
		h.up(at)
	}
}

// remove takes item out. It is never compared on the way, so that an item may
// be removed that has lost what it is compared by.
func (h *heap[T, O]) remove(item T) {
	var o O
	place := o.place(item)
	at, last := int(*place)-1, len(h.items)-1
	*place = 0
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if at == last {
		h.shrink()
		return
	}
	h.items[at] = moved
	if !h.down(at) {
		h.up(at)
	}
	h.shrink()
}

// shrink lets go of memory that a long queue has left behind.
func (h *heap[T, O]) shrink() {
	if n := len(h.items); cap(h.items) > 64 && n < cap(h.items)/4 {
		h.items = append(make([]T, 0, 2*n), h.items...)
	}
}

func (h *heap[T, O]) up(at int) {
	var o O
	item := h.items[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !o.before(item, h.items[parent]) {
			break
		}
		h.items[at] = h.items[parent]
		*o.place(h.items[at]) = int32(at + 1)
		at = parent
	}
	h.items[at] = item
	*o.place(item) = int32(at + 1)
}

// down tells whether the item moved.
func (h *heap[T, O]) down(at int) bool {
	var o O
	item, from := h.items[at], at
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			break
		}
		if other := child + 1; other < len(h.items) && o.before(h.items[other], h.items[child]) {
			child = other
		}
		if !o.before(h.items[child], item) {
			break
		}
		h.items[at] = h.items[child]
		*o.place(h.items[at]) = int32(at + 1)
		at = child
	}
	h.items[at] = item
	*o.place(item) = int32(at + 1)
	return at != from
}
