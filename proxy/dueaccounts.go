package proxy

// dueAccounts is a heap: who is due first comes first.
type dueAccounts []*account

func (h dueAccounts) Len() int           { return len(h) }
func (h dueAccounts) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueAccounts) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueAccounts) Push(x any) {
	a := x.(*account)
	a.place = len(*h)
	*h = append(*h, a)
}

func (h *dueAccounts) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.place = -1
	return a
}
