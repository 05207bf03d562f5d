package proxy

import (
	"bytes"
	"io"
	"net/http"
)

// keep reads a small body before the request waits, so that it can be sent again,
// and so that a client that leaves while it waits is noticed, which net/http does
// only when nothing is left to be read. A large body streams, and is sent once.
func (s *Server) keep(x *exchange, r *http.Request) error {
	bound := x.state.policy.Retry
	n := r.ContentLength
	if x.upload == nil || x.wish.once || x.state.policy.Observes() || n <= 0 || n > int64(bound.Body) {
		return nil
	}
	if s.kept.Add(n) > int64(bound.Memory) {
		s.kept.Add(-n)
		return nil
	}
	x.held = n
	body := make([]byte, n)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		x.upload.failed(err)
		return err
	}
	// The end itself, without which the client's next request is not looked at.
	if _, err := r.Body.Read(make([]byte, 1)); err != io.EOF && err != nil {
		return err
	}
	x.body = body
	return nil
}

// rewind readies the request for its next attempt.
func (x *exchange) rewind(r *http.Request) {
	if x.body == nil {
		return
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	r.Body, _ = r.GetBody()
}

// again tells whether the request could be sent once more.
func (x *exchange) again(r *http.Request) bool {
	return !x.wish.once && !x.state.policy.Observes() && (x.body != nil || r.Body == nil || r.Body == http.NoBody)
}
