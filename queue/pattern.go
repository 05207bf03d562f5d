package queue

import (
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
	recent  [8]*recent
	choices *choices // nil: they are few
}

// recent is what requests of one client for one route need.
type recent struct {
	client, method, path string
	cost                 int64
	needs                [][]Need
	choices              *choices // nil: they are few
}

// choicesOf are those of needs that several requests have, nil if they are few.
func choicesOf(needs [][]Need) *choices {
	if len(needs) < manyChoices {
		return nil
	}
	return &choices{needs: needs}
}

// forgetPatterns has all needs looked up anew.
func (s *site) forgetPatterns() {
	for _, p := range s.known {
		p.choices.end()
		for _, one := range p.recent {
			if one != nil {
				one.choices.end()
			}
		}
	}
	clear(s.known)
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
	of   *Subject // of the limit that it was made for last; nil: of none
	made bool     // by Limit.Make
	own  bool     // a client's or route's
	bare bool     // only cools, and nobody has needed it yet
}

// plan finds the slots of a request's limits. The whole site is one of them. What
// it answers may be that of other requests, too, and must not be changed.
func (s *site) plan(now time.Time, r *Request) ([][]Need, error) {
	s.choices, s.alternatives = nil, max(s.alternatives, len(r.Limits))
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
		s.choices = p.choices
		return p.needs, nil
	}
	at := p.place(r)
	if m := *at; m.is(r) {
		s.choices = m.choices
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
		if *at != nil {
			(*at).choices.end()
		}
		*at = &recent{r.Client, r.Method, r.Path, r.Cost, needs, choicesOf(needs)}
		s.choices = (*at).choices
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
	if !p.own && !p.mixed {
		p.choices = choicesOf(p.needs)
	}
	if s.known == nil {
		s.known = map[*[]Limit]*pattern{}
	}
	if len(s.known) >= mostPatterns {
		s.forgetPatterns()
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
