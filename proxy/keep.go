package proxy

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// keepStep is how much of a body is asked for at a time, so that retry.memory is
// taken for what came and not for what was announced.
const keepStep = 16 << 10

// keep reads a small body before the request waits, so that it can be sent again,
// and so that a client that leaves while it waits is noticed, which net/http does
// only when nothing is left to be read. One of unknown length is kept as it passes.
// Of what is larger than retry.body, or than what retry.memory has left, the rest
// streams, and it is sent once.
func (s *Server) keep(x *exchange, r *http.Request) error {
	if x.upload == nil || x.state.policy.Observes() || r.ContentLength > int64(x.state.policy.Retry.Body) {
		return nil
	}
	if r.ContentLength < 0 {
		x.spool = newSpool(x.upload, func(have int) int { return s.room(x, have, -1) }, x.upload.pause)
		return nil
	}
	began := time.Now()
	defer func() { x.uploading = time.Since(began) }()
	var body []byte
	for {
		if len(body) == cap(body) {
			step := s.room(x, len(body), r.ContentLength)
			if step == 0 {
				x.upload.pause()
				r.Body = &begun{head: body, ReadCloser: x.upload}
				return nil
			}
			body = append(make([]byte, 0, len(body)+step), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			x.body = body
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// room is by how much the buffer of a body may grow, 0 if not at all. There is one
// byte more than announced or allowed, for the end itself: net/http looks at the
// client only after that. One goroutine asks at a time.
func (s *Server) room(x *exchange, have int, announced int64) int {
	bound := x.state.policy.Retry
	most := int(bound.Body) + 1
	if announced >= 0 {
		most = int(announced) + 1
	}
	step := min(max(keepStep, have), most-have)
	if step <= 0 || s.kept.Add(int64(step)) > int64(bound.Memory) {
		s.kept.Add(-int64(max(step, 0)))
		return 0
	}
	x.held.Add(int64(step))
	if x.released.Load() { // since, by the handler's end
		s.kept.Add(-x.held.Swap(0))
		return 0
	}
	return step
}

// begun is a body of which a part was read already.
type begun struct {
	head []byte
	io.ReadCloser
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	return b.ReadCloser.Read(p)
}

// release gives up the kept body: there is no other attempt.
func (s *Server) release(x *exchange) {
	x.released.Store(true)
	s.kept.Add(-x.held.Swap(0))
	x.body = nil
}

// rewind readies the request for its next attempt.
func (x *exchange) rewind(r *http.Request) {
	switch {
	case x.spool != nil:
		r.Body = x.spool.reader()
	case x.body != nil:
		body := x.body
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
	}
}

// replayable tells whether the request could be sent once more.
func (x *exchange) replayable(r *http.Request) bool {
	switch {
	case x.wish.once || x.state.policy.Observes():
		return false
	case x.spool != nil:
		_, whole := x.spool.whole()
		return whole
	}
	return x.body != nil || r.Body == nil || r.Body == http.NoBody
}
