package queue

// lane is the queue of the holds that need the same slots. Only the first of
// them matters to the rest of the site: what keeps it keeps the others too.
type lane struct {
	key     string    // :: its slots' numbers
	slots   [][]*Slot // :: alternative → slots
	classes [classes]class
	seats   []*seat // where it waits; the open bench when that is not known
	holds   int
	toll    *toll      // counts them; nil until it is known what keeps them
	kept    []keptFrom // by what, in order; the last is toll
}

// class are the holds of one priority in a lane.
type class struct {
	flows heap[*flow, byTurn] // whose turn it is
	old   heap[*Hold, byAge]  // who has waited longest
}

// flow are the holds of one client in a class of a lane.
type flow struct {
	client *client
	lane   *lane
	class  int
	turn   float64 // the client's, copied: a heap's items may only change one at a time
	holds  heap[*Hold, byArrival]

	inClass int32
}

type byTurn struct{}

func (byTurn) before(a, b *flow) bool {
	if a.turn != b.turn {
		return a.turn < b.turn
	}
	return a.holds.top().seq < b.holds.top().seq
}
func (byTurn) place(f *flow) *int32 { return &f.inClass }

// enter puts a hold at its place.
func (l *lane) enter(h *Hold) {
	c := &l.classes[h.class]
	before := c.first()
	f := h.client.flow(l, h.class)
	f.holds.push(h)
	if c.flows.has(f) {
		c.flows.fix(f)
	} else {
		c.flows.push(f)
	}
	c.old.push(h)
	h.flow, h.lane = f, l
	l.holds++
	l.moved(h.class, before)
}

// leave takes a hold out, wherever it stands.
func (l *lane) leave(h *Hold) {
	c, f := &l.classes[h.class], h.flow
	before := c.first()
	f.holds.remove(h)
	if f.holds.empty() {
		c.flows.remove(f)
		delete(f.client.flows, flowKey{l, h.class})
	} else {
		c.flows.fix(f)
	}
	c.old.remove(h)
	h.flow, h.lane = nil, nil
	l.holds--
	l.moved(h.class, before)
}

// foremost is what the benches know of a class.
type foremost struct {
	next, oldest *Hold
	turn         float64
}

func (c *class) first() foremost {
	if c.flows.empty() {
		return foremost{}
	}
	f := c.flows.top()
	return foremost{f.holds.top(), c.old.top(), f.turn}
}

// moved tells the benches where the lane waits that one of its classes has changed,
// if that is to be seen from there.
func (l *lane) moved(p int, before foremost) {
	if l.classes[p].first() == before {
		return
	}
	for _, s := range l.seats {
		s.slot.bench.sync(s, p)
		s.slot.stir()
	}
}

// client is what fairness knows of one client of a site.
type client struct {
	name  string
	turn  float64 // how much it has had, per weight: the smallest is next
	holds int     // of its that wait or rest
	cost  int64   // of those
	share float64 // its weight, as its last hold said
	flows map[flowKey]*flow
}

type flowKey struct {
	lane  *lane
	class int
}

func (c *client) flow(l *lane, p int) *flow {
	key := flowKey{l, p}
	f := c.flows[key]
	if f == nil {
		f = &flow{client: c, lane: l, class: p, turn: c.turn}
		if c.flows == nil {
			c.flows = map[flowKey]*flow{}
		}
		c.flows[key] = f
	}
	return f
}

// pay moves the client's turn, in every lane where it waits: usually one or
// two, at most the routes of the site.
func (c *client) pay(turn float64) {
	c.turn = turn
	for _, f := range c.flows {
		in := &f.lane.classes[f.class]
		before := in.first()
		f.turn = turn
		if in.flows.has(f) {
			in.flows.fix(f)
			f.lane.moved(f.class, before)
		}
	}
}
