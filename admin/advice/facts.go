package advice

import (
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// Facts are the numbers from which advice is computed.
type Facts struct {
	Now     time.Time
	Since   time.Time     // when History begins
	Active  time.Duration // of the minutes in which anything was counted
	History store.History // all of it together
	Limits  []status.Limit
	Tokens  status.Tokens
	Pools   map[string]string // :: site → its pool
	Waiting map[string]int    // :: site → requests that wait
	Unread  []status.SiteUnread
	Shared  []history.SharedName
}

// least is the least time that advice goes by: of less, too little is known.
const least = 10 * time.Second

// elapsed is the time that History is about, without the minutes in which nothing happened.
func (f *Facts) elapsed() time.Duration { return max(f.Active, least) }

// share is the part of the time for which a limit held any request.
func (f *Facts) share(b store.Blocked) float64 {
	return min(float64(b.Busy)/float64(f.elapsed()), 1)
}

// limits are the limits of the configuration with a site and a name, one for each token, client
// or other that has the limit for itself.
func (f *Facts) limits(site, name string) (list []status.Limit) {
	for _, one := range f.Limits {
		if one.Site == site && one.Limit == name {
			list = append(list, one)
		}
	}
	return list
}

// announced are the limits with a site and a name that the site has announced, of all tokens.
func (f *Facts) announced(site, name string) (list []status.Announced) {
	add := func(some []status.Announced) {
		for _, one := range some {
			if one.Site == site && (name == "" || one.Name() == name) {
				list = append(list, one)
			}
		}
	}
	for _, pool := range f.Tokens.Pools {
		for _, token := range pool.Tokens {
			add(token.Limits)
		}
	}
	add(f.Tokens.Limits)
	return list
}

// usable are the tokens of a pool that are neither disabled nor quarantined.
func (f *Facts) usable(pool string) (n int) {
	for _, one := range f.Tokens.Pools {
		for _, token := range one.Tokens {
			if one.Name == pool && token.State != "disabled" && token.State != "quarantined" {
				n++
			}
		}
	}
	return n
}
