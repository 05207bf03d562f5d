package proxy

import (
	"crypto/tls"
	"net"
)

// opened is a TLS connection that we have opened, as net/http has it for HTTP/1.
// net/http watches a client by a read of one byte, on a new goroutine for each request.
// In TLS that read needs more stack than a goroutine begins with, and to make it grow
// costs more than the bytes of a small answer. So it waits below TLS, where little is
// needed, until there is something to be read.
type opened struct {
	*tls.Conn
	under *clientConn
}

func (o *opened) Read(p []byte) (int, error) {
	if len(p) == 1 && o.under.bodiless.Load() {
		if err := o.under.await(); err != nil {
			return 0, err
		}
	}
	return o.Conn.Read(p)
}

// NetConn has who looks for the connection underneath see that TLS is between.
func (o *opened) NetConn() net.Conn { return o.Conn }

// await waits until something has come from the client, its end included. It answers at
// once where that cannot be found out without reading it.
func (c *clientConn) await() error {
	if len(c.prefix) > 0 {
		return nil
	}
	if c.raw == nil {
		if c.raw = descriptorOf(c.Conn); c.raw == nil {
			return nil
		}
	}
	return c.raw.Read(hasCome)
}
