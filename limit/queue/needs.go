package queue

import "time"

const (
	// mostFound is the largest number of needs that a site remembers: for each set of limits that some route
	// of a rule has, and of a limit by client or route for some clients and routes.
	mostFound = 64
	// mostAlternatives is the largest number of alternatives of all these together, unless few requests
	// have that many.
	mostAlternatives = 1024
	// longestOwn is the longest client and route, in bytes together, whose needs are
	// remembered.
	longestOwn = 256
)

// Needs is a handle for limits that many requests have: a site remembers what it has found for it.
type Needs struct{ byClient, byRoute, byCost bool }

// Compile makes the handle of limits, for Request.Needs. Nobody may change the limits any more.
func Compile(limits [][]Limit) *Needs {
	n := &Needs{}
	for _, alternative := range limits {
		for i := range alternative {
			l := &alternative[i]
			n.byClient = n.byClient || l.By == ByClient
			n.byRoute = n.byRoute || l.By == ByRoute
			n.byCost = n.byCost || l.Of == Cost
		}
	}
	return n
}

// foundKey is equal for requests that take the same from the same resources.
type foundKey struct {
	needs                *Needs
	client, method, path string
	cost                 int64
}

// key has those properties of a request on which its needs depend.
func (n *Needs) key(r *Request) foundKey {
	k := foundKey{needs: n}
	if n.byClient {
		k.client = r.Client
	}
	if n.byRoute {
		k.method, k.path = r.Method, r.Path
	}
	if n.byCost {
		k.cost = r.Cost
	}
	return k
}

// found are the needs of requests, with the resources of a site.
type found struct {
	needs   [][]need
	choices *choices // nil: the alternatives are few
}

// forgetFound has all needs looked up anew.
func (s *registry) forgetFound() {
	for _, f := range s.found {
		f.choices.end()
	}
	clear(s.found)
	s.foundAlternatives = 0
}

// plan finds the resources of a request's limits. The whole site is one of them. Other
// requests may share the answer: it must not be changed. The choices are nil if no other request
// has these needs, or if the alternatives are few.
func (s *registry) plan(now time.Time, r *Request) ([][]need, *choices, error) {
	s.alternatives = max(s.alternatives, len(r.Limits))
	s.sweep(now)
	if len(r.Limits) == 0 {
		return s.unlimited, nil, nil
	}
	if r.Needs == nil {
		needs, err := s.lookUp(now, r)
		return needs, nil, err
	}
	key := r.Needs.key(r)
	if f, ok := s.found[key]; ok {
		return f.needs, f.choices, nil
	}
	needs, err := s.lookUp(now, r)
	if err != nil || len(key.client)+len(key.method)+len(key.path) > longestOwn {
		return needs, nil, err
	}
	return needs, s.rememberFound(key, needs), nil
}

// rememberFound remembers needs. Where there are too many, some others are forgotten.
func (s *registry) rememberFound(key foundKey, needs [][]need) *choices {
	f := found{needs: needs}
	if len(needs) >= minRanked {
		f.choices = &choices{needs: needs}
	}
	if s.found == nil {
		s.found = map[foundKey]found{}
	}
	s.foundAlternatives += len(needs)
	for k, old := range s.found { // in no order
		if len(s.found) < mostFound && s.foundAlternatives <= max(mostAlternatives, 8*len(needs)) {
			break
		}
		old.choices.end()
		delete(s.found, k)
		s.foundAlternatives -= len(old.needs)
	}
	s.found[key] = f
	return f.choices
}

// lookUp finds the resources of a request's limits.
func (s *registry) lookUp(now time.Time, r *Request) ([][]need, error) {
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
