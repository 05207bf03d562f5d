package queue

import "time"

// decisions are the results of a call of scheduler.next. The slices are valid until the next call of
// scheduler.next.
type decisions struct {
	granted []*hold
	refused []*hold // hold.refusal says why
	bytes   []*byteRequest
	again   time.Time // when to ask again if nothing else happens; zero is never
}

// clear drops the holds of the latest decisions, so that an inactive site keeps no
// requests in memory.
func (d *decisions) clear() {
	clear(d.granted)
	clear(d.refused)
	clear(d.bytes)
	d.granted, d.refused, d.bytes = d.granted[:0], d.refused[:0], d.bytes[:0]
}
