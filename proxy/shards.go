package proxy

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/shard"
)

// ownerHeader tells which crawler owns a URL that is another's.
const ownerHeader = "Abide-Owner"

// owned refuses a request whose URL belongs to another crawler.
func (s *Server) owned(x *exchange, r *http.Request) *answer {
	of := x.state.policy.Shard
	if of.Of < 2 {
		return nil
	}
	t := x.target
	return misplaced(of, shard.KeyOf(t.Scheme, t.Host, t.Port, r.URL.EscapedPath(), r.URL.RawQuery, shard.By(of.By)))
}

// ownedHost refuses a tunnel to a host that is another crawler's. Where URLs tell the
// parts apart nobody knows it of a tunnel.
func ownedHost(of policy.Shard, host string, port uint16) *answer {
	if of.Of < 2 || shard.By(of.By) != shard.Host {
		return nil
	}
	return misplaced(of, shard.KeyOf("https", host, port, "/", "", shard.Host))
}

// ownedSite tells whether all of a site is this crawler's: its host is, and it is no more
// than that host.
func ownedSite(p *policy.Policy, site string) bool {
	if p.Shard.Of < 2 || shard.By(p.Shard.By) != shard.Host {
		return false
	}
	t, err := policy.ParseTarget("https", site)
	if err != nil {
		return false
	}
	m := p.Match(t)
	if m.Site != site || m.Rule != nil && m.Rule.Group != "host" {
		return false
	}
	return shard.Owner(shard.KeyOf(t.Scheme, t.Host, t.Port, "/", "", shard.Host), p.Shard.Of) == p.Shard.Index
}

func misplaced(of policy.Shard, key string) *answer {
	owner := shard.Owner(key, of.Of)
	if owner == of.Index {
		return nil
	}
	a := answerOthers
	a.limit = fmt.Sprintf("crawler %d of %d", owner, of.Of)
	a.header = [2]string{ownerHeader, strconv.Itoa(owner)}
	return &a
}
