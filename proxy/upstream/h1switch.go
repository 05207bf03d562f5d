package upstream

import (
	"errors"
	"net"
)

var errSwitchEarly = malformedAnswer("101 before the request's body was taken")

// switched is the connection after a 101 answer, as the body of that answer. It is a
// net.Conn whose first bytes may have been buffered.
type switched struct {
	net.Conn
	c        *conn
	buffered []byte
}

// takeOver takes the connection out of HTTP after a 101. The request's context does not
// close it any more.
func (c *conn) takeOver(stop func() bool, up *upload) (*switched, error) {
	if up != nil && (!up.wait() || !up.complete) {
		return nil, errSwitchEarly
	}
	if stop != nil && !stop() {
		return nil, net.ErrClosed // the context has ended
	}
	s := &switched{Conn: c.nc, c: c}
	if n := c.br.Buffered(); n > 0 {
		data, _ := c.br.Peek(n)
		s.buffered = append([]byte(nil), data...)
	}
	c.releaseReader()
	c.clearDeadlines()
	if c.metered != nil {
		c.metered.becomesTunnel()
	}
	return s, nil
}

func (s *switched) Read(p []byte) (int, error) {
	if len(s.buffered) > 0 {
		n := copy(p, s.buffered)
		s.buffered = s.buffered[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}

func (s *switched) Close() error {
	s.c.close()
	return nil
}

// CloseWrite closes the sending direction.
func (s *switched) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection underneath, or nil while buffered bytes are left.
func (s *switched) NetConn() net.Conn {
	if len(s.buffered) > 0 {
		return nil
	}
	return s.Conn
}
