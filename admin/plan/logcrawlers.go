package plan

import (
	"container/heap"
	"time"
)

// longestPause is the longest pause between two requests of one crawler. After a longer one
// a crawler begins anew, at its own time: it was started by something else than an answer.
const longestPause = 10 * time.Minute

// findCrawlers finds out which requests one crawler has sent, one after the other: each
// request follows the request of its client that was answered last before it came, and that
// no other request follows.
func (l *Log) findCrawlers() {
	known := map[uint32]*answeredOrder{}
	for i := range l.records {
		r := &l.records[i]
		of := known[r.client]
		if of == nil {
			of = &answeredOrder{log: l}
			known[r.client] = of
		}
		before := of.answeredBefore(r.began)
		r.first = before < 0
		if before >= 0 {
			record := &l.records[before]
			record.next = int32(i)
			r.pause = r.began - record.began - record.took
		}
		heap.Push(of, int32(i))
	}
}

// answeredOrder are requests of a client: those that no other follows yet.
type answeredOrder struct {
	log     *Log
	waiting []int32 // a heap: the first is answered first
	free    []int32 // answered, in the order of their answers
}

// answeredBefore takes the request that was answered last until a time; -1 is none.
func (o *answeredOrder) answeredBefore(at time.Duration) int32 {
	for len(o.waiting) > 0 && o.end(o.waiting[0]) <= at {
		o.free = append(o.free, heap.Pop(o).(int32))
	}
	if len(o.free) == 0 {
		return -1
	}
	last := o.free[len(o.free)-1]
	if at-o.end(last) > longestPause {
		o.free = o.free[:0]
		return -1
	}
	o.free = o.free[:len(o.free)-1]
	return last
}

func (o *answeredOrder) end(i int32) time.Duration {
	return o.log.records[i].began + o.log.records[i].took
}

func (o *answeredOrder) Len() int           { return len(o.waiting) }
func (o *answeredOrder) Less(i, j int) bool { return o.end(o.waiting[i]) < o.end(o.waiting[j]) }
func (o *answeredOrder) Swap(i, j int)      { o.waiting[i], o.waiting[j] = o.waiting[j], o.waiting[i] }
func (o *answeredOrder) Push(one any)       { o.waiting = append(o.waiting, one.(int32)) }

func (o *answeredOrder) Pop() any {
	last := len(o.waiting) - 1
	one := o.waiting[last]
	o.waiting = o.waiting[:last]
	return one
}
