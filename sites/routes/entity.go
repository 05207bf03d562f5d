package routes

import "strings"

// entity is a part of a path that has limits of its own although the server gives them one
// name: a channel, a project. The zero value is none.
type entity struct {
	segment int    // depth of the segment that names the entity; 0: no entity
	name    string // "channels/41771983423143937"
	shape   string // of the path so far, the same for all entities: "/channels/*/messages"
}

// below returns the entity of a node below, with its shape.
func (p entity) below(segment string) entity {
	if p.segment > 0 {
		p.shape += "/" + segment
	}
	return p
}

// entityOf returns the entity of a path, by the depth of the segment that names it. The
// path is without its first slash. The name before that segment is part of the entity's
// name.
func entityOf(path string, apart int) entity {
	if apart <= 0 || apart > mostDepth {
		return entity{}
	}
	var before, value string
	more := true
	for n := 0; n < apart; n++ {
		if !more {
			return entity{}
		}
		before = value
		value, path, more = strings.Cut(path, "/")
	}
	if !identifies(value) {
		return entity{}
	}
	if before == "" || isValue(before, false) {
		before = "*"
	}
	return entity{segment: apart, name: before + "/" + keyOf(value)}
}
