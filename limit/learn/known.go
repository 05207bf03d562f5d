package learn

// Documented is what the dialects say of a request before it is sent.
type Documented struct {
	EntitySegment int          // the path segment, from 1, that distinguishes budgets of one name; 0: none
	Limits        []KnownLimit // limits of its service; each call returns the same slice
}

// About returns what the dialects say of a request. The closest dialect with limits counts.
func About(request Request) (d Documented) {
	var room [most]*Dialect
	for _, one := range builtin.of(&request, room[:0]) {
		if d.EntitySegment == 0 {
			d.EntitySegment = one.entitySegment(request.Path)
		}
		if len(d.Limits) == 0 {
			d.Limits = one.Limits
		}
	}
	return d
}
