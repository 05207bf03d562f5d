package budget

import (
	"time"

	"github.com/abide-proxy/abide/store/budget/lease"
)

// account is the leases of one site, with when there is something to ask the store. The
// lock of the site in the gate guards the lease.Account, the lock of accounts the other
// fields.
type account struct {
	*lease.Account
	site string

	at    time.Time // when it is due; zero: not by time alone. While busy: that it became due meanwhile
	place int       // index in the heap; -1: not in it
	busy  bool      // an exchange for it is under way
}

// dueAccounts is a heap: the account that is due first comes first.
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
