package proxy

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// websockets relays WebSockets. goproxy's own relay would keep the client's connection open
// after the upstream has closed its own.
type websockets struct {
	*transport
	conns *trackedConns
}

// serve sends an upgrade like any request and, when the upstream agrees, relays bytes both
// ways.
func (s websockets) serve(x *exchange, r *http.Request) {
	w := &x.writer
	resp, _ := s.RoundTrip(r, nil)
	defer resp.Body.Close()
	for k, v := range resp.Header { // of a response of abide itself
		w.Header()[k] = v
	}
	origin, upgraded := resp.Body.(*download)
	if resp.StatusCode != http.StatusSwitchingProtocols || !upgraded {
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
		return
	}
	stream, ok := origin.body.(net.Conn)
	if !ok {
		w.head = nil
		refuse(s.metrics, w, r, &problem.Upgrade)
		return
	}
	w.Header()["Connection"] = []string{"Upgrade"}
	w.Header()["Upgrade"] = []string{"websocket"}
	w.WriteHeader(resp.StatusCode)
	raw, buffered, err := w.ctl.Hijack()
	if err != nil {
		return
	}
	defer raw.Close()
	if x.conn != nil {
		x.conn.halfClose.delays.Store(false) // EOF now ends the WebSocket
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	t := x.Snapshot.Policy().Timeouts
	s.conns.relay(raw, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, raw, stream, upstream.RelayOptions{
			Idle: t.TunnelIdle, Life: t.TunnelLife, FromClient: early, CloseBoth: true, OnProgress: active,
		})
	})
}
