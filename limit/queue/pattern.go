package queue

import "time"

// mostPatterns is the largest number a site remembers. There is one for each set of limits
// that some route of a rule has.
const mostPatterns = 64

// longestOwn is the longest client and route, in bytes together, whose needs are
// remembered.
const longestOwn = 256

// pattern is the common part of the needs of requests with the same limits.
type pattern struct {
	needs      [][]need // without a resource where each request has its own
	perRequest bool     // there are such
	ambiguous  bool     // two limits of one name may share a resource: nothing is in common

	// The needs of a few of the latest clients and routes, so that one that comes
	// again and again is not looked up each time. Each has one place.
	recent  [8]*recentRequest
	choices *choices // nil: they are few
}

// recentRequest holds the needs of requests of one client for one route.
type recentRequest struct {
	client, method, path string
	cost                 int64
	needs                [][]need
	choices              *choices // nil: they are few
}

// choicesOf are those of needs that several requests have, nil if they are few.
func choicesOf(needs [][]need) *choices {
	if len(needs) < minRanked {
		return nil
	}
	return &choices{needs: needs}
}

// forgetPatterns has all needs looked up anew.
func (s *registry) forgetPatterns() {
	for _, p := range s.patterns {
		p.choices.end()
		for _, one := range p.recent {
			if one != nil {
				one.choices.end()
			}
		}
	}
	clear(s.patterns)
}

// place returns the place where the needs of such requests are remembered.
func (p *pattern) place(r *Request) **recentRequest {
	n := len(r.Client) + len(r.Path)
	if r.Client != "" {
		n += int(r.Client[len(r.Client)-1])
	}
	if r.Path != "" {
		n += int(r.Path[len(r.Path)-1])
	}
	return &p.recent[n%len(p.recent)]
}

func (m *recentRequest) is(r *Request) bool {
	return m != nil && m.cost == r.Cost && m.path == r.Path && m.client == r.Client && m.method == r.Method
}

// plan finds the resources of a request's limits. The whole site is one of them. Other
// requests may share the answer: it must not be changed.
func (s *registry) plan(now time.Time, r *Request) ([][]need, error) {
	s.choices, s.alternatives = nil, max(s.alternatives, len(r.Limits))
	s.sweep(now)
	if len(r.Limits) == 0 {
		return s.unlimited, nil
	}
	// A plan may answer with slices that others have, too.
	if p := s.patterns[&r.Limits[0]]; !r.Shared && (p == nil || len(p.needs) != len(r.Limits)) {
		return s.planAlone(now, r)
	}
	p, err := s.pattern(now, r)
	switch {
	case err != nil:
		return nil, err
	case p.ambiguous:
		return s.planAlone(now, r)
	case !p.perRequest:
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
			if list[j].resource != nil {
				continue
			}
			l := &r.Limits[i][j-1] // the first is the site
			list[j].n = l.units(r)
			if list[j].resource, err = s.resourceFor(now, l, r); err != nil {
				return nil, err
			}
		}
		needs[i] = list
	}
	if len(r.Client)+len(r.Method)+len(r.Path) <= longestOwn {
		if *at != nil {
			(*at).choices.end()
		}
		*at = &recentRequest{r.Client, r.Method, r.Path, r.Cost, needs, choicesOf(needs)}
		s.choices = (*at).choices
	}
	return needs, nil
}

// planAlone is plan for limits that no other request has.
func (s *registry) planAlone(now time.Time, r *Request) ([][]need, error) {
	needs := make([][]need, len(r.Limits))
	for i, alternative := range r.Limits {
		list := append(make([]need, 0, len(alternative)+1), need{resource: s.whole})
		for j := range alternative {
			l := &alternative[j]
			res, err := s.resourceFor(now, l, r)
			if err != nil {
				return nil, err
			}
			list = merge(list, l.need(res, r))
		}
		needs[i] = list
	}
	return needs, nil
}

// pattern is the one of a request's limits.
func (s *registry) pattern(now time.Time, r *Request) (*pattern, error) {
	if p := s.patterns[&r.Limits[0]]; p != nil {
		return p, nil
	}
	p := &pattern{needs: make([][]need, len(r.Limits))}
	for i, alternative := range r.Limits {
		list := append(make([]need, 0, len(alternative)+1), need{resource: s.whole})
		for j := range alternative {
			l := &alternative[j]
			need := need{n: l.N, of: l.Of, refuse: l.Refuse}
			if l.own() {
				p.perRequest = true
			} else {
				res, err := s.resourceFor(now, l, r)
				if err != nil {
					return nil, err
				}
				need.resource = res
			}
			for k := range j {
				p.ambiguous = p.ambiguous || alternative[k].Name == l.Name
			}
			list = append(list, need)
		}
		p.needs[i] = list
	}
	if !p.perRequest && !p.ambiguous {
		p.choices = choicesOf(p.needs)
	}
	if s.patterns == nil {
		s.patterns = map[*[]Limit]*pattern{}
	}
	if len(s.patterns) >= mostPatterns {
		s.forgetPatterns()
	}
	s.patterns[&r.Limits[0]] = p
	return p, nil
}

// room is room for needs like those, in one piece if there are no more than usual.
func room(like [][]need) [][]need {
	if len(like) == 1 && len(like[0]) <= 12 {
		if len(like[0]) <= 4 {
			r := &struct {
				one [1][]need
				few [4]need
			}{}
			r.one[0] = r.few[:0]
			return r.one[:]
		}
		r := &struct {
			one [1][]need
			few [12]need
		}{}
		r.one[0] = r.few[:0]
		return r.one[:]
	}
	needs := make([][]need, len(like))
	for i := range like {
		needs[i] = make([]need, 0, len(like[i]))
	}
	return needs
}

// merge adds a need, to the one of the same resource if there is one.
func merge(list []need, n need) []need {
	for i := range list {
		if list[i].resource == n.resource {
			list[i].n += n.n
			list[i].refuse = list[i].refuse || n.refuse
			return list
		}
	}
	return append(list, n)
}

// need returns the units that a request needs of the limit's resource.
func (l *Limit) need(res *resource, r *Request) need { return need{res, l.units(r), l.Of, l.Refuse} }
