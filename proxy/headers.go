package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// allowedMethods is the Allow of a 405.
const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// knownMethods are the registered methods that a proxy forwards: RFC 9110,
// PATCH, WebDAV and its kin, QUERY, and PURGE, which caches understand.
var knownMethods = map[string]bool{
	"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true,
	"PROPFIND": true, "PROPPATCH": true, "MKCOL": true, "COPY": true, "MOVE": true, "LOCK": true, "UNLOCK": true,
	"REPORT": true, "SEARCH": true, "ACL": true, "BIND": true, "UNBIND": true, "REBIND": true, "LINK": true, "UNLINK": true,
	"MKCALENDAR": true, "MKACTIVITY": true, "MKWORKSPACE": true, "CHECKIN": true, "CHECKOUT": true, "UNCHECKOUT": true,
	"LABEL": true, "MERGE": true, "UPDATE": true, "VERSION-CONTROL": true, "BASELINE-CONTROL": true, "ORDERPATCH": true,
	"QUERY": true, "PURGE": true, "NOTIFY": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true,
}

// methodRefusal says why a method does not pass, nil when it does.
func methodRefusal(m string) *answer {
	switch {
	case knownMethods[m]:
		return nil
	case m == "TRACE" || m == "TRACK":
		return &answerTrace
	default:
		return &answerMethod
	}
}

// hopByHop are the headers that end at a proxy, in canonical spelling.
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
}

// stripHop removes what is meant for this connection alone, in place: the
// fixed set and whatever Connection names. Content-Length and Host stay even
// when Connection names them, or a client could unframe its own request.
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

// fewFields is up to how many it costs less to look at each than to look all the
// hop-by-hop ones up.
const fewFields = 8

// asksForWebsocket recognises the one upgrade that is let through.
func asksForWebsocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		len(r.Header["Upgrade"]) == 1 && strings.EqualFold(r.Header["Upgrade"][0], "websocket") &&
		listed(r.Header["Connection"], "upgrade")
}

// listed tells whether a comma-separated header names a token.
func listed(lines []string, token string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
