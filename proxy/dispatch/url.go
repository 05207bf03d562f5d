package dispatch

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// Absolute makes u name the target in its canonical form.
func Absolute(u *url.URL, t policy.Target) {
	u.Scheme, u.User, u.Fragment = t.Scheme, nil, ""
	u.Host = hostOf(t)
}

// hostOf is a target as Host names it: without its port where that is the usual.
func hostOf(t policy.Target) string {
	switch {
	case !t.UsualPort():
		return t.HostPort()
	case strings.Contains(t.Host, ":"):
		return "[" + t.Host + "]"
	}
	return t.Host
}

// KeepPath has the path go out as it came. What must not stand in a path is
// escaped, and nothing else: net/url would write the whole path anew for one such
// byte, and %2F would become a slash. A fragment is not for the wire.
func KeepPath(u *url.URL) {
	if raw, _, found := strings.Cut(u.RawPath, "#"); found {
		u.RawPath, u.RawQuery, u.ForceQuery = raw, "", false
		u.Path, _ = url.PathUnescape(raw)
	}
	u.RawQuery, _, _ = strings.Cut(u.RawQuery, "#")
	if u.RawPath == "" || u.EscapedPath() == u.RawPath {
		return
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		if c := u.RawPath[i]; pathBytes[c] {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	u.RawPath = b.String()
}

// pathBytes may stand in a path (RFC 3986), % of escapes included.
var pathBytes = func() (ok [256]bool) {
	for c := range 256 {
		ok[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c < 128 && strings.IndexByte("-._~!$&'()*+,;=:@/%[]", byte(c)) >= 0
	}
	return ok
}()
