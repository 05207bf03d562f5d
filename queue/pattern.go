package queue

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// mostPatterns is how many a site remembers. There is one for each set of limits
// that some route of a rule has.
const mostPatterns = 64

// longestOwn is the longest client and route whose needs are remembered.
const longestOwn = 256

// pattern is what the needs of requests with the same limits have in common.
type pattern struct {
	needs [][]Need // without a slot where each request has its own
	own   bool     // there are such
	mixed bool     // two limits of one name may share a slot: nothing is in common

	// The needs of a few of the latest clients and routes, so that one that comes
	// again and again is not looked up each time. Each has one place.
	recent [8]*recent
}

// recent is what requests of one client for one route need.
type recent struct {
	client, method, path string
	cost                 int64
	needs                [][]Need
}

// place is where the needs of such requests are remembered.
func (p *pattern) place(r *Request) **recent {
	n := len(r.Client) + len(r.Path)
	if r.Client != "" {
		n += int(r.Client[len(r.Client)-1])
	}
	if r.Path != "" {
		n += int(r.Path[len(r.Path)-1])
	}
	return &p.recent[n%len(p.recent)]
}

func (m *recent) is(r *Request) bool {
	return m != nil && m.cost == r.Cost && m.path == r.Path && m.client == r.Client && m.method == r.Method
}

// entry is a limit's slot and what it was made from.
type entry struct {
	slot *Slot
	spec *limit.Spec
	made bool // by Limit.Make
	own  bool // a client's or route's
}

// plan finds the slots of a request's limits. The whole site is one of them. What
// it answers may be that of other requests, too, and must not be changed.
func (s *site) plan(now time.Time, r *Request) ([][]Need, error) {
	s.sweep(now)
	if len(r.Limits) == 0 {
		return s.alone, nil
	}
	// A plan may answer with slices that others have, too.
	if p := s.known[&r.Limits[0]]; !r.Shared && (p == nil || len(p.needs) != len(r.Limits)) {
		return s.planAlone(now, r)
	}
	p, err := s.pattern(now, r)
	switch {
	case err != nil:
		return nil, err
	case p.mixed:
		return s.planAlone(now, r)
	case !p.own:
		return p.needs, nil
	}
	at := p.place(r)
	if m := *at; m.is(r) {
		return m.needs, nil
	}
	needs := room(p.needs)
	for i, common := range p.needs {
		list := append(needs[i], common...)
		for j := range list {
			if list[j].Slot != nil {
				continue
			}
			l := &r.Limits[i][j-1] // the first is the site
			list[j].N = l.units(r)
			if list[j].Slot, err = s.slot(now, l, r); err != nil {
				return nil, err
			}
		}
		needs[i] = list
	}
	if len(r.Client)+len(r.Method)+len(r.Path) <= longestOwn {
		*at = &recent{r.Client, r.Method, r.Path, r.Cost, needs}
	}
	return needs, nil
}

// planAlone is plan for limits that no other request has.
func (s *site) planAlone(now time.Time, r *Request) ([][]Need, error) {
	needs := make([][]Need, len(r.Limits))
	for i, alternative := range r.Limits {
		list := append(make([]Need, 0, len(alternative)+1), Need{Slot: s.all})
		for j := range alternative {
			l := &alternative[j]
			slot, err := s.slot(now, l, r)
			if err != nil {
				return nil, err
			}
			list = merge(list, l.need(slot, r))
		}
		needs[i] = list
	}
	return needs, nil
}

// pattern is the one of a request's limits.
func (s *site) pattern(now time.Time, r *Request) (*pattern, error) {
	if p := s.known[&r.Limits[0]]; p != nil {
		return p, nil
	}
	p := &pattern{needs: make([][]Need, len(r.Limits))}
	for i, alternative := range r.Limits {
		list := append(make([]Need, 0, len(alternative)+1), Need{Slot: s.all})
		for j := range alternative {
			l := &alternative[j]
			need := Need{N: l.N, Of: l.Of, Refuse: l.Refuse}
			if l.own() {
				p.own = true
			} else {
				slot, err := s.slot(now, l, r)
				if err != nil {
					return nil, err
				}
				need.Slot = slot
			}
			for k := range j {
				p.mixed = p.mixed || alternative[k].Name == l.Name
			}
			list = append(list, need)
		}
		p.needs[i] = list
	}
	if s.known == nil {
		s.known = map[*[]Limit]*pattern{}
	}
	if len(s.known) >= mostPatterns {
		clear(s.known)
	}
	s.known[&r.Limits[0]] = p
	return p, nil
}

// room is room for needs like those, in one piece if there are no more than usual.
func room(like [][]Need) [][]Need {
	if len(like) == 1 && len(like[0]) <= 12 {
		if len(like[0]) <= 4 {
			r := &struct {
				one [1][]Need
				few [4]Need
			}{}
			r.one[0] = r.few[:0]
			return r.one[:]
		}
		r := &struct {
			one [1][]Need
			few [12]Need
		}{}
		r.one[0] = r.few[:0]
		return r.one[:]
	}
	needs := make([][]Need, len(like))
	for i := range like {
		needs[i] = make([]Need, 0, len(like[i]))
	}
	return needs
}

// merge adds a need, to the one of the same slot if there is one.
func merge(list []Need, n Need) []Need {
	for i := range list {
		if list[i].Slot == n.Slot {
			list[i].N += n.N
			list[i].Refuse = list[i].Refuse || n.Refuse
			return list
		}
	}
	return append(list, n)
}

// slot is the one of a limit for a request.
func (s *site) slot(now time.Time, l *Limit, r *Request) (*Slot, error) {
	at := l.scope(r)
	spec, made := l.arithmetic()
	e := s.entry(at)
	if e != nil && e.made == made && (e.spec == spec || e.spec != nil && spec != nil && *e.spec == *spec) {
		e.spec = spec // is found to be the same at once the next time
		if made && e.slot.title != l.title() {
			s.rename(e, l, at.Key) // more is known of it now
		}
		return e.slot, nil
	}
	m, fresh, err := l.meter()
	if err != nil {
		return nil, err
	}
	if e == nil {
		e = &entry{s.sched.Slot(l.label(at.Key), m, fresh), spec, made, l.By != ByNone}
		e.slot.title = l.title()
		s.keep(l, at, e)
		return e.slot, nil
	}
	moved := e.spec != nil && spec != nil && e.spec.As == spec.As
	if moved {
		if m, err = limit.Move(now, e.slot.meter, *spec); err != nil {
			return nil, fmt.Errorf("the limit %q: %w", l.Name, err)
		}
	}
	e.spec, e.made = spec, made
	s.rename(e, l, at.Key)
	s.sched.Change(now, e.slot, m, fresh, moved)
	clear(s.known) // others may know it by the limits from before
	return e.slot, nil
}

// rename gives the slot of a limit the limit's name.
func (s *site) rename(e *entry, l *Limit, key string) {
	if e == s.rest[l.Name] {
		key = others
	}
	e.slot.rename(l.label(key), l.title())
}
