package proxy

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// client is who sent a request: a name of access.clients, or nobody.
type client struct {
	name     string
	secret   policy.Secret
	weight   int
	priority int
	opensAll bool // intercept: all
}

// admit decides who may use the proxy at all.
func (s *Server) admit(p *policy.Policy, r *http.Request) (*client, *answer) {
	if c := connOf(r); c != nil && c.addr.IsValid() && !p.Access.From.Contains(c.addr) {
		return nil, &answerStranger
	}
	if len(p.Access.Clients) == 0 {
		return nil, nil
	}
	header := r.Header.Get("Proxy-Authorization")
	who := authenticate(p.Access.Clients, header)
	if who == nil {
		if header != "" {
			s.metrics.WrongSecret("proxy")
			s.wrong.Wrong(r.Context(), addressOf(r))
		}
		return nil, &answerAuthenticate
	}
	return who, nil
}

// addressOf is where a request comes from.
func addressOf(r *http.Request) netip.Addr {
	if c := connOf(r); c != nil {
		return c.addr
	}
	return netip.Addr{}
}

// refusedSecrets is for the log.
func (s *Server) refusedSecrets(from netip.Addr, wrong int) {
	s.log.Warnf("the proxy refused a name or secret from %s that is not one of access.clients: %d since the last such line", from, wrong)
}

// readmit decides whether who opened a CONNECT may still use what it opened: a
// reload may have taken its address or its secret away.
func readmit(p *policy.Policy, conn *clientConn) *answer {
	if conn.admitted == p {
		return nil
	}
	if conn.addr.IsValid() && !p.Access.From.Contains(conn.addr) {
		return &answerStranger
	}
	if len(p.Access.Clients) > 0 && !stillNamed(p.Access.Clients, conn.client) {
		return &answerRevoked
	}
	return nil
}

func stillNamed(clients []policy.Client, who *client) bool {
	if who == nil {
		return false
	}
	for i := range clients {
		if clients[i].Name == who.name && clients[i].Secret.Equal(who.secret.Reveal()) {
			return true
		}
	}
	return false
}

// authenticate finds the client of a Basic Proxy-Authorization, nil for none.
// It compares one secret whether or not the name is known, in constant time.
func authenticate(clients []policy.Client, header string) *client {
	name, secret, ok := basicCredentials(header)
	if !ok {
		return nil
	}
	against, known := &clients[0], false
	for i := range clients {
		if clients[i].Name == name {
			against, known = &clients[i], true
		}
	}
	if !against.Secret.Equal(secret) || !known {
		return nil
	}
	return &client{name: name, secret: against.Secret, weight: against.Weight, priority: against.Priority, opensAll: against.OpensAll}
}

// basicCredentials reads a Basic Proxy-Authorization.
func basicCredentials(header string) (name, secret string, ok bool) {
	scheme, encoded, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	name, secret, _ = strings.Cut(string(plain), ":")
	return name, secret, true
}
