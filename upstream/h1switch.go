package upstream

import (
	"errors"
	"net"
)

var errSwitchEarly = malformed("101 before the request's body was taken")

// switched is the connection after a 101: the body of that answer. It is a
// net.Conn of which the first bytes may have come already.
type switched struct {
	net.Conn
	c     *conn
	early []byte
}

// switchOver takes the connection out of HTTP. From here on the request's
// context does not end it.
func (c *conn) switchOver(stop func() bool, up *upload) (*switched, error) {
	if up != nil && (!up.wait() || !up.whole) {
		return nil, errSwitchEarly
	}
	if stop != nil && !stop() {
		return nil, net.ErrClosed // the context did that
	}
	s := &switched{Conn: c.nc, c: c}
	if n := c.br.Buffered(); n > 0 {
		data, _ := c.br.Peek(n)
		s.early = append([]byte(nil), data...)
	}
	c.releaseReader()
	c.clearDeadlines()
	if c.gauge != nil {
		c.gauge.switches()
	}
	return s, nil
}

func (s *switched) Read(p []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(p, s.early)
		s.early = s.early[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}

func (s *switched) Close() error {
	s.c.close()
	return nil
}

// CloseWrite ends this side of the connection.
func (s *switched) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection below, once nothing of it is held here: nil before.
func (s *switched) NetConn() net.Conn {
	if len(s.early) > 0 {
		return nil
	}
	return s.Conn
}
