package admin

import (
	"cmp"
	"slices"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// unreadOf are the unread connections of a site, nil where there were none.
func unreadOf(p *policy.Policy, c metrics.SiteCount) *status.SiteUnread {
	var s *status.SiteUnread
	c.Unread.Each(func(reason string, connections uint64) {
		if s == nil {
			s = &status.SiteUnread{Site: c.Name}
		}
		s.Connections += connections
		s.Reasons = append(s.Reasons, status.UnreadReason{Reason: reason, Connections: connections, Remedy: p.UnreadRemedy(policy.Unread(reason))})
	})
	return s
}

// UnreadNow is what https has passed unread, nil where none has.
func UnreadNow(p *policy.Policy, counts []metrics.SiteCount) *status.Unread {
	u := &status.Unread{}
	for _, one := range counts {
		if s := unreadOf(p, one); s != nil {
			u.Connections += s.Connections
			u.Sites = append(u.Sites, *s)
		}
	}
	if u.SiteCount = len(u.Sites); u.SiteCount == 0 {
		return nil
	}
	slices.SortFunc(u.Sites, func(a, b status.SiteUnread) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Site, b.Site))
	})
	u.Sites = u.Sites[:min(len(u.Sites), status.MaxListed)]
	return u
}
