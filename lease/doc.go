// Package lease has the budgets of one site that one instance keeps with a store:
// what it may take without asking, what it has to say, and when.
//
//	a := lease.NewAccount("api.example", lease.Options{Instance: id, Seq: seq, Bell: bell})
//	m := a.Shared("requests", spec, lease.Strict) // is a limit.Meter
//
//	if b, ok := a.Batch(now); ok { // when a.Due, or after Bell
//		r, err := exchange(b)
//		a.Hear(now, r, err)
//	}
//
// It has no goroutine, no clock, no lock and no I/O: now is always an argument, and
// whoever owns an account has a lock for it and its meters.
//
// Two kinds of meters keep their word with a store. A Kept one counts by itself and
// writes down beforehand how much it may have counted, so that it can be restored
// after a crash. A Shared one counts what the store has leased to it, so that many
// instances share one budget.
package lease
