package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
)

// Unread is https whose requests nobody read, so that limits were not seen. Only
// connections can be counted, not the requests inside.
type Unread struct {
	Connections uint64 `json:"connections"`
	// Sites are those with the most connections, at most maxSites.
	Sites     []SiteUnread `json:"sites,omitempty"`
	SiteCount int          `json:"site_count"`
}

// SiteUnread is the unread https of one site.
type SiteUnread struct {
	Site        string         `json:"site"`
	Connections uint64         `json:"connections"`
	Reasons     []UnreadReason `json:"reasons"`
}

// UnreadReason is why https passed unread: auto, unlisted, none, excluded, refused or
// constrained. Remedy says what to do so that it is read, "" where it is meant to pass
// unread.
type UnreadReason struct {
	Reason      string `json:"reason"`
	Connections uint64 `json:"connections"`
	Remedy      string `json:"remedy,omitempty"`
}

// whyUnread are the reasons in words.
var whyUnread = map[string]string{
	string(policy.UnreadAuto):        "intercept: auto, and no rule needs its requests",
	string(policy.UnreadUnlisted):    "intercept does not list it",
	string(policy.UnreadNone):        "intercept: none",
	string(policy.UnreadExcluded):    "its rule says learn: false",
	string(policy.UnreadRefused):     "the client did not accept abide's certificate",
	string(policy.UnreadConstrained): "ca.cert does not permit it",
}

// Why is the reason in words.
func (r UnreadReason) Why() string { return cmp.Or(whyUnread[r.Reason], r.Reason) }

// unreadOf are the unread connections of a site, nil where there were none.
func unreadOf(p *policy.Policy, c metrics.SiteCount) *SiteUnread {
	var s *SiteUnread
	c.Unread.Each(func(reason string, connections uint64) {
		if s == nil {
			s = &SiteUnread{Site: c.Name}
		}
		s.Connections += connections
		s.Reasons = append(s.Reasons, UnreadReason{reason, connections, p.UnreadRemedy(policy.Unread(reason))})
	})
	return s
}

// unreadNow is nil where no https has passed unread.
func unreadNow(p *policy.Policy, counts []metrics.SiteCount) *Unread {
	u := &Unread{}
	for _, one := range counts {
		if s := unreadOf(p, one); s != nil {
			u.Connections += s.Connections
			u.Sites = append(u.Sites, *s)
		}
	}
	if u.SiteCount = len(u.Sites); u.SiteCount == 0 {
		return nil
	}
	slices.SortFunc(u.Sites, func(a, b SiteUnread) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Site, b.Site))
	})
	u.Sites = u.Sites[:min(len(u.Sites), maxSites)]
	return u
}

// Remedies are what to do, each once, in the order of the sites.
func (u *Unread) Remedies() []string {
	var list []string
	for _, site := range u.Sites {
		for _, one := range site.Reasons {
			if one.Remedy != "" && !slices.Contains(list, one.Remedy) {
				list = append(list, one.Remedy)
			}
		}
	}
	return list
}

// DescribeUnread writes to which sites https passed unread, and how to change that.
func (s Status) DescribeUnread(w io.Writer) {
	if s.Unread == nil {
		return
	}
	heading(w, number(int(s.Unread.Connections), "https connection", "https connections")+" passed unread; limits of the requests inside are not seen")
	t := table{numbers: []int{1}}
	t.add("SITE", "CONNECTIONS", "WHY")
	for _, site := range s.Unread.Sites[:min(len(s.Unread.Sites), mostDescribed)] {
		for _, one := range site.Reasons {
			t.add(site.Site, fmt.Sprint(one.Connections), one.Why())
		}
	}
	t.write(w)
	if more := s.Unread.SiteCount - min(len(s.Unread.Sites), mostDescribed); more > 0 {
		say(w, "and %s", number(more, "other site", "other sites"))
	}
	for _, one := range s.Unread.Remedies() {
		say(w, "to have it read: %s", one)
	}
}
