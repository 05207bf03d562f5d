package proxy

import (
	"net/http"

	"github.com/abide-proxy/abide/policy"
)

// openName is the user name, and the password, with which a client that has no secret
// says on any port that it trusts the CA: http://open:open@127.0.0.1:3128.
const openName = "open"

// trustsCA tells whether the client of a CONNECT says that it trusts the CA: by the
// open listener, by intercept: all of its name in access.clients, or by the user name
// open where access.clients is empty.
func trustsCA(p *policy.Policy, r *http.Request, conn *clientConn, who *client) bool {
	switch {
	case who != nil && who.opensAll:
		return true
	case p.Open.Off:
		return false
	case conn != nil && conn.opens:
		return true
	}
	if len(p.Access.Clients) > 0 {
		return false
	}
	name, password, ok := basicCredentials(r.Header.Get("Proxy-Authorization"))
	return ok && name == openName && password == openName
}
