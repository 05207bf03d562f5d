package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/proxy/dispatch"
)

// hopByHop are the headers that are for one connection only, in canonical spelling.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
}

// fewFields is up to how many fields a search through the header is faster than a look-up
// of each hop-by-hop field.
const fewFields = 8

// stripHop removes the hop-by-hop headers in place: the fixed set, and those that
// Connection names. Content-Length and Host stay even when Connection names them, or a
// client could hide where its own request ends.
func stripHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			switch name {
			case "", "Close", "Keep-Alive", "Content-Length", "Host", "Content-Type", "Authorization", "Cookie":
			default:
				delete(h, name)
			}
		}
	}
	if len(h) > fewFields {
		for _, name := range hopByHop {
			delete(h, name)
		}
		return
	}
	for name := range h {
		if slices.Contains(hopByHop[:], name) {
			delete(h, name)
		}
	}
}

// asksForWebsocket recognises an upgrade to WebSocket, the only upgrade that is forwarded.
func asksForWebsocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		len(r.Header["Upgrade"]) == 1 && strings.EqualFold(r.Header["Upgrade"][0], "websocket") &&
		dispatch.Lists(r.Header["Connection"], "upgrade")
}
