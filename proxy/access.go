package proxy

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/throttle"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// openName is the user name and the password by which a client without a secret says that
// the client trusts the CA: http://open:open@127.0.0.1:3128.
const openName = "open"

// access decides which clients may use the proxy, and delays those with a wrong secret.
type access struct {
	metrics      *metrics.Metrics
	wrongSecrets *throttle.Guard
}

func newAccess(m *metrics.Metrics, log *logrus.Logger) *access {
	return &access{m, throttle.New(func(from netip.Addr, wrong int) {
		log.WithField("client", from.String()).Warnf("the proxy refused a name or secret from %s that is not one of access.clients: %d since the last such line", from, wrong)
	})}
}

// admit returns the client of a request, nil without access.clients, or the problem for which
// the request is refused.
func (a *access) admit(p *policy.Policy, r *http.Request) (*dispatch.Client, *problem.Problem) {
	if c := connOf(r); c != nil && c.addr.IsValid() && !p.Access.From.Contains(c.addr) {
		return nil, &problem.Stranger
	}
	if len(p.Access.Clients) == 0 {
		return nil, nil
	}
	header := r.Header.Get("Proxy-Authorization")
	client := authenticate(p.Access.Clients, header)
	if client == nil {
		if header != "" {
			a.metrics.WrongSecret("proxy")
			a.wrongSecrets.Wrong(r.Context(), addressOf(r))
		}
		return nil, &problem.Authenticate
	}
	return client, nil
}

// addressOf is the client's address of a request.
func addressOf(r *http.Request) netip.Addr {
	if c := connOf(r); c != nil {
		return c.addr
	}
	return netip.Addr{}
}

// readmit returns the client that opened a CONNECT as the configuration has it now, or the problem
// for which it may not use the connection any more: a reload may have removed the client's address
// or secret.
func readmit(p *policy.Policy, conn *clientConn) (*dispatch.Client, *problem.Problem) {
	was := conn.grant.client
	switch {
	case conn.grant.policy == p:
		return was, nil
	case conn.addr.IsValid() && !p.Access.From.Contains(conn.addr):
		return nil, &problem.Stranger
	case len(p.Access.Clients) == 0:
		return nil, nil
	}
	if was != nil {
		if client := p.Client(was.Name); client != nil && client.Secret.Equal(was.Secret.Reveal()) {
			return client, nil
		}
	}
	return nil, &problem.Revoked
}

// trustsCA reports whether the client of a CONNECT says that it trusts the CA: by
// intercept: all of its name in access.clients, by the open listener, or by the user name
// open where access.clients is empty.
func trustsCA(p *policy.Policy, r *http.Request, conn *clientConn, client *dispatch.Client) bool {
	switch {
	case client != nil && client.OpensAll:
		return true
	case p.Open.Off:
		return false
	case conn != nil && conn.trustsCA:
		return true
	}
	if len(p.Access.Clients) > 0 {
		return false
	}
	name, password, ok := basicCredentials(r.Header.Get("Proxy-Authorization"))
	return ok && name == openName && password == openName
}

// authenticate finds the client of a Basic Proxy-Authorization, nil if there is none. It
// compares one secret whether or not the name is known, in constant time.
func authenticate(clients []policy.Client, header string) *dispatch.Client {
	name, secret, ok := basicCredentials(header)
	if !ok {
		return nil
	}
	client := lists.Find(clients, func(c *policy.Client) bool { return c.Name == name })
	if !cmp.Or(client, &clients[0]).Secret.Equal(secret) {
		return nil
	}
	return client
}

// basicCredentials reads a Basic Proxy-Authorization.
func basicCredentials(header string) (name, secret string, ok bool) {
	r := http.Request{Header: http.Header{"Authorization": {strings.Join(strings.Fields(header), " ")}}}
	return r.BasicAuth()
}
