package sites

import "container/heap"

// longest keeps at most a number of cooldowns, those that last longest. It is a heap with
// the earliest end in front.
type longest struct {
	list []cooldown
	most int
}

// add adds a cooldown, and drops the shortest if there are too many.
func (l *longest) add(c cooldown) {
	switch {
	case len(l.list) < l.most:
		heap.Push(l, c)
	case l.list[0].Until.Before(c.Until):
		l.list[0] = c
		heap.Fix(l, 0)
	}
}

// Len and the following methods implement heap.Interface.
func (l *longest) Len() int           { return len(l.list) }
func (l *longest) Less(i, j int) bool { return l.list[i].Until.Before(l.list[j].Until) }
func (l *longest) Swap(i, j int)      { l.list[i], l.list[j] = l.list[j], l.list[i] }
func (l *longest) Push(c any)         { l.list = append(l.list, c.(cooldown)) }

// Pop is not used: cooldowns are only replaced.
func (l *longest) Pop() any {
	last := l.list[len(l.list)-1]
	l.list = l.list[:len(l.list)-1]
	return last
}
