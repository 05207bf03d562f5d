// Package lease calculates what one instance may spend of a site's budgets, which are
// kept in a store: what it may take without asking, what to ask, and when.
//
//	a := lease.NewAccount("api.example", lease.Options{Instance: id, Seq: seq, OnDue: wake})
//	m := a.Shared("requests", spec, lease.Strict) // is a limit.Meter
//
//	if b, ok := a.Batch(now); ok { // when a.Due, or after OnDue
//		r, err := exchange(b)
//		a.Receive(now, r, err)
//	}
//
// It is pure, without goroutines, clocks, locks or I/O: now is always an argument, and
// the owner of an account synchronises access to the account and its meters.
//
// There are two kinds of meters. A Durable meter counts by itself and
// writes in advance how much it may have counted, so that it can be restored
// after a crash. A Shared meter counts what the store has leased to it, so that many
// instances share one budget.
package lease
