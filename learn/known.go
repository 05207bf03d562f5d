package learn

import "time"

// KnownLimit is a limit that a service documents, and that does not change: so many requests
// in any time of a length, or so many at once.
type KnownLimit struct {
	Requests int64
	Per      time.Duration
	AtOnce   int64 // requests in flight; the other numbers are 0 then
	Scope    Scope // Token or Site
}

// Documented is what the dialects say of a request before it is sent.
type Documented struct {
	EntitySegment int          // see EntitySegment
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
