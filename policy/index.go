package policy

import "strings"

// index finds the first rule that matches a host and port, in one map access per
// label.
type index struct {
	built bool             // the zero value, of a Policy that was not loaded, has no rules
	exact map[string]ports // canonical host → its rules
	below map[string]ports // what follows "*." → its rules
	all   ports
}

// ports is the first rule for every port, and the rules for one port each.
type ports struct {
	any int32
	one map[uint16]int32 // port → its first rule
}

const none int32 = 1<<31 - 1

func (p ports) find(port uint16) int32 {
	if rule, ok := p.one[port]; ok {
		return min(p.any, rule)
	}
	return p.any
}

func (p ports) add(port uint16, rule int32) ports {
	if port == 0 {
		p.any = min(p.any, rule)
	} else if p.find(port) > rule {
		if p.one == nil {
			p.one = map[uint16]int32{}
		}
		p.one[port] = rule
	}
	return p
}

func (x *index) add(p Pattern, rule int32) {
	if p.All {
		x.all = x.all.add(p.Port, rule)
		return
	}
	m := &x.exact
	if p.Below {
		m = &x.below
	}
	if *m == nil {
		*m = map[string]ports{}
	}
	entry, ok := (*m)[p.Host]
	if !ok {
		entry.any = none
	}
	(*m)[p.Host] = entry.add(p.Port, rule)
}

func (x *index) find(host string, port uint16) int32 {
	if !x.built {
		return none
	}
	first := none
	if entry, ok := x.exact[host]; ok {
		first = entry.find(port)
	}
	if len(x.below) > 0 {
		for rest := host; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			rest = rest[dot+1:]
			if entry, ok := x.below[rest]; ok {
				first = min(first, entry.find(port))
			}
		}
	}
	return min(first, x.all.find(port))
}

func newIndex(sites []Site) index {
	x := index{built: true, all: ports{any: none}}
	for i := range sites {
		for _, p := range sites[i].Hosts {
			x.add(p, int32(i))
		}
	}
	return x
}
