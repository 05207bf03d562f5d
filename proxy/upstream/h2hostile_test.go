package upstream

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hostilities are what an origin may go on sending for ever. Each sends once.
var hostilities = map[string]func(c *frameConn, stream uint32) error{
	"empty CONTINUATION": func(c *frameConn, stream uint32) error { return c.WriteContinuation(stream, false, nil) },
	"SETTINGS":           func(c *frameConn, _ uint32) error { return c.WriteSettings() },
	"SETTINGS that are": func(c *frameConn, _ uint32) error {
		return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 70000})
	},
	"SETTINGS ACK":        func(c *frameConn, _ uint32) error { return c.WriteSettingsAck() },
	"PING":                func(c *frameConn, _ uint32) error { return c.WritePing(false, [8]byte{}) },
	"PING ACK":            func(c *frameConn, _ uint32) error { return c.WritePing(true, [8]byte{}) },
	"WINDOW_UPDATE":       func(c *frameConn, _ uint32) error { return c.WriteWindowUpdate(0, 1) },
	"WINDOW_UPDATE of it": func(c *frameConn, stream uint32) error { return c.WriteWindowUpdate(stream, 1) },
	"RST_STREAM":          func(c *frameConn, stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) },
	"empty DATA":          func(c *frameConn, stream uint32) error { return c.WriteData(stream, false, nil) },
	"padding": func(c *frameConn, stream uint32) error {
		return c.WriteDataPadded(stream, false, nil, make([]byte, 200))
	},
	"DATA": func(c *frameConn, stream uint32) error { return c.WriteData(stream, false, make([]byte, 1000)) },
	"PRIORITY": func(c *frameConn, stream uint32) error {
		return c.WritePriority(stream, http2.PriorityParam{Weight: 1})
	},
	"103": func(c *frameConn, stream uint32) error {
		c.buf.Reset()
		c.henc.WriteField(hpack.HeaderField{Name: ":status", Value: "103"})
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.buf.Bytes(), EndHeaders: true})
	},
	"PUSH_PROMISE": func(c *frameConn, stream uint32) error {
		return c.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, EndHeaders: true})
	},
	"GOAWAY":         func(c *frameConn, stream uint32) error { return c.WriteGoAway(stream, http2.ErrCodeNo, nil) },
	"an unknown one": func(c *frameConn, stream uint32) error { return c.WriteRawFrame(0xfa, 0, stream, []byte("x")) },
}

// countedReads counts what is read of a connection.
type countedReads struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedReads) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// TestAHostileOriginIsLeft holds that abide stops reading what an origin sends for ever
// once its client has left: after so many frames the connection is at its end.
func TestAHostileOriginIsLeft(t *testing.T) {
	const endless = 1_000_000 // frames
	const bound = 4 << 20     // bytes of them, TLS included, that are read
	for name, send := range hostilities {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			var ended atomic.Bool
			came, over := make(chan struct{}, 1), make(chan struct{})
			tr, f := framed(t, nil, func(c *frameConn) {
				defer close(over)
				stream := c.next()
				go io.Copy(io.Discard, c.nc)
				c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}, EndHeaders: name != "empty CONTINUATION"})
				came <- struct{}{}
				for sent.Load() < endless {
					if send(c, stream) != nil {
						ended.Store(true)
						return
					}
					sent.Add(1)
				}
			})
			var read atomic.Int64
			dial := tr.Dial
			tr.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
				nc, err := dial(ctx, host, port)
				return &countedReads{nc, &read}, err
			}
			ctx, leave := context.WithCancel(t.Context())
			req := newRequest(t, "GET", f.url, nil).WithContext(ctx)
			got := make(chan struct{})
			go func() {
				defer close(got)
				resp, err := tr.RoundTrip(req)
				if err == nil {
					io.CopyN(io.Discard, resp.Body, 1)
					<-ctx.Done()
					resp.Body.Close()
				}
			}()
			<-came
			leave()
			<-got
			<-over
			if n := read.Load(); !ended.Load() || n > bound {
				t.Errorf("%d bytes of %d frames were read, the connection has ended: %v", n, sent.Load(), ended.Load())
			}
		})
	}
}
