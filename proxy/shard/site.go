package shard

import "github.com/abide-proxy/abide/policy"

// OwnsSite tells whether all of a site belongs to this policy's part: the site has one
// host, and that host belongs to it.
func OwnsSite(p *policy.Policy, site string) bool {
	if p.Shard.Of < 2 || By(p.Shard.By) != Host {
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
	return Owner(KeyOf(t.Scheme, t.Host, t.Port, "/", "", Host), p.Shard.Of) == p.Shard.Index
}
