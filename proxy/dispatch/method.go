package dispatch

import (
	"strings"

	"github.com/abide-proxy/abide/proxy/problem"
)

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

// MethodRefusal says why a method does not pass, nil when it does.
func MethodRefusal(m string) *problem.Problem {
	switch {
	case knownMethods[m]:
		return nil
	case m == "TRACE" || m == "TRACK":
		return &problem.Trace
	default:
		return &problem.Method
	}
}

// Lists tells whether a comma-separated header names a token.
func Lists(lines []string, token string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
