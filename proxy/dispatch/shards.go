package dispatch

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/shard"
)

// ownerHeader tells which crawler owns a URL that is another's.
const ownerHeader = "Abide-Owner"

// owned refuses a request whose URL belongs to another crawler.
func owned(of policy.Shard, t policy.Target, u *url.URL) *problem.Problem {
	if of.Of < 2 {
		return nil
	}
	return misplaced(of, shard.KeyOf(t.Scheme, t.Host, t.Port, u.EscapedPath(), u.RawQuery, shard.By(of.By)))
}

// OwnedHost refuses a tunnel to a host that is another crawler's. Where URLs tell the
// parts apart, the owner of a tunnel is not known.
func OwnedHost(of policy.Shard, host string, port uint16) *problem.Problem {
	if of.Of < 2 || shard.By(of.By) != shard.Host {
		return nil
	}
	return misplaced(of, shard.KeyOf("https", host, port, "/", "", shard.Host))
}

func misplaced(of policy.Shard, key string) *problem.Problem {
	owner := shard.Owner(key, of.Of)
	if owner == of.Index {
		return nil
	}
	a := problem.Others
	a.Limit = fmt.Sprintf("crawler %d of %d", owner, of.Of)
	a.Header = [2]string{ownerHeader, strconv.Itoa(owner)}
	return &a
}
