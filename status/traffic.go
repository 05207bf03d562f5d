package status

import (
	"cmp"
	"slices"
	"time"
)

// MaxTraffic bounds the steps of all sites together in a list.
const MaxTraffic = 100_000

// Traffic counts what went from and to a site from Start on, for one step.
type Traffic struct {
	Site     string    `json:"site"`
	Start    time.Time `json:"start"`
	In       int64     `json:"bytes_received"` // from the site
	Out      int64     `json:"bytes_sent"`     // to the site
	Requests int64     `json:"requests"`
}

// TrafficList is the answer of /api/v1/bandwidth. More tells that not all is listed.
type TrafficList struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Step    string    `json:"step"`
	Traffic []Traffic `json:"traffic"`
	More    bool      `json:"more"`
}

// Normalize has its bound, an order, no null list, and times in UTC.
func (l *TrafficList) Normalize() {
	list := append([]Traffic{}, l.Traffic...)
	slices.SortStableFunc(list, func(a, b Traffic) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Site, b.Site))
	})
	l.More = len(list) > MaxTraffic
	l.Traffic = list[:min(len(list), MaxTraffic)]
	for i := range l.Traffic {
		l.Traffic[i].Start = l.Traffic[i].Start.UTC()
	}
}
