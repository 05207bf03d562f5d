package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// keepStep is how much of a body is asked for at a time, so that retry.memory is
// taken for what came and not for what was announced.
const keepStep = 16 << 10

// keep reads a small body before the request waits, so that it can be sent again,
// and so that a client that leaves while it waits is noticed, which net/http does
// only when nothing is left to be read. One of unknown length is kept as it passes.
// Of what is larger than retry.body, or than what retry.memory has left, the rest
// streams, and it is sent once. Some of that is read ahead while it waits.
func (s *Server) keep(x *exchange, r *http.Request) error {
	if x.upload == nil || x.state.policy.Observes() {
		return nil
	}
	large := r.ContentLength > int64(x.state.policy.Retry.Body)
	switch {
	case large && !x.watched():
		return nil
	case large && x.continues:
		x.lookAfter(r.Context())
		return nil
	case large || r.ContentLength < 0:
		x.lookAfter(r.Context())
		x.spool = newSpool(x.upload, r.Trailer, func(have int) int { return s.room(x, have, r.ContentLength) })
		x.spool.length = r.ContentLength
		return nil
	}
	began := time.Now()
	defer func() { x.uploading = time.Since(began) }()
	var body []byte
	for {
		if len(body) == cap(body) {
			step := s.room(x, len(body), r.ContentLength)
			if step == 0 {
				x.lookAfter(r.Context())
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

// mostAhead is how much is read while a request waits of a body that is too large to be
// kept: the end of a client that has left comes after what it has sent. Half of
// retry.memory is not for that.
const mostAhead = 8 << 20

// room is by how much the buffer of a body may grow, 0 if not at all. There is one
// byte more than announced or allowed, for the end itself: net/http looks at the
// client only after that. One goroutine asks at a time.
func (s *Server) room(x *exchange, have int, announced int64) int {
	bound := x.state.policy.Retry
	most, memory := int64(bound.Body)+1, int64(bound.Memory)
	switch ahead := x.looking.Load(); {
	case ahead && (int64(have) >= most || announced >= most):
		most, memory = max(most, mostAhead+1), memory/2
	case announced >= most:
		most = 0 // streams
	}
	if announced >= 0 {
		most = min(most, announced+1)
	}
	step := min(max(keepStep, have), int(most)-have)
	if step <= 0 || s.kept.Add(int64(step)) > memory {
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
	if x.spool != nil {
		x.spool.drop()
	}
}

// rewind is the request for its next attempt. Another may still be reading the one
// before.
func (x *exchange) rewind(r *http.Request) *http.Request {
	switch {
	case x.spool != nil:
		one := r.WithContext(r.Context())
		url := *r.URL
		one.URL = &url
		one.Body, one.Trailer = x.spool.reader()
		return one
	case x.body != nil:
		// Through x, so that the body can be let go with the request still there.
		r.GetBody = func() (io.ReadCloser, error) { return &keptBody{data: x.body}, nil }
		r.Body, _ = r.GetBody()
	}
	return r
}

// rewinds tells whether an attempt of which nothing was sent leaves the body whole.
func (x *exchange) rewinds() bool { return x.upload == nil || x.body != nil || x.spool.intact() }

// replayable tells whether the request could be sent once more.
func (x *exchange) replayable(r *http.Request) bool {
	switch {
	case x.wish.once || x.state.policy.Observes():
		return false
	case x.spool != nil:
		return x.spool.intact()
	}
	return x.body != nil || r.Body == nil || r.Body == http.NoBody
}

// keptBody is a kept body for one attempt. It lets go of it when that is over.
type keptBody struct {
	mu   sync.Mutex
	data []byte
}

func (b *keptBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *keptBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
	return nil
}
