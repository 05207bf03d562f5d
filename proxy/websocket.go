package proxy

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/abide-proxy/abide/upstream"
)

// websocket sends an upgrade down the request's path and, when the upstream
// agrees, relays both ways. goproxy's own relay would keep the client's socket
// after the upstream has closed, so this stands beside it.
func (s *Server) websocket(x *exchange, r *http.Request) {
	w := &x.writer
	resp, _ := s.RoundTrip(r, nil)
	defer resp.Body.Close()
	for k, v := range resp.Header { // of an answer of ours
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
		s.refuse(w, r, &answerUpgrade)
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
		x.conn.answering.Store(false) // an end of its bytes means what it says now
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	t := x.state.policy.Timeouts
	s.tunnels.run(raw, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, raw, stream, upstream.RelayOptions{
			Idle: t.TunnelIdle, Life: t.TunnelLife, FromClient: early, CloseBoth: true, OnProgress: active,
		})
	})
}
