package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// Unread is https whose requests nobody read, so that limits were not seen. Only
// connections can be counted, not the requests inside.
type Unread struct {
	Connections uint64 `json:"connections"`
	// Sites are those with the most connections, at most MaxListed.
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
	"auto":        "intercept: auto, and no rule needs its requests",
	"unlisted":    "intercept does not list it",
	"none":        "intercept: none",
	"excluded":    "its rule says learn: false",
	"refused":     "the client did not accept abide's certificate",
	"constrained": "ca.cert does not permit it",
}

// Why is the reason in words.
func (r UnreadReason) Why() string { return cmp.Or(whyUnread[r.Reason], r.Reason) }

// Remedies lists what to do, each once, in the order of the sites.
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
func (s Process) DescribeUnread(w io.Writer) {
	if s.Unread == nil {
		return
	}
	heading(w, Number(int(s.Unread.Connections), "https connection", "https connections")+" passed unread; limits of the requests inside are not seen")
	t := table{numbers: []int{1}}
	t.add("SITE", "CONNECTIONS", "WHY")
	for _, site := range s.Unread.Sites[:min(len(s.Unread.Sites), mostDescribed)] {
		for _, one := range site.Reasons {
			t.add(site.Site, fmt.Sprint(one.Connections), one.Why())
		}
	}
	t.write(w)
	if more := s.Unread.SiteCount - min(len(s.Unread.Sites), mostDescribed); more > 0 {
		say(w, "and %s", Number(more, "other site", "other sites"))
	}
	for _, one := range s.Unread.Remedies() {
		say(w, "to have it read: %s", one)
	}
}
