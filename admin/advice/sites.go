package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// refusedShare is the part of a site's attempts that it must have refused to be worth a
	// word, and fewestRefusals how many.
	refusedShare   = 0.05
	fewestRefusals = 10
	// fewestUnread is the least number of connections for which advice is given.
	fewestUnread = 10
	// foreignShare is the part of a limit that others must use.
	foreignShare = 0.2
)

// outages are sites, and backends, that do not work.
func outages(f *Facts) (list []status.Advice) {
	for _, b := range f.Broken {
		what := b.Site
		if b.Backend != "" {
			what = "The backend " + b.Backend + " of " + b.Site
		}
		list = append(list, status.Advice{
			Site: b.Site, Weight: 1, Text: strings.TrimSuffix(fmt.Sprintf("%s does not work: %s, %s", what, b.Why, b.Began()), ", ") + ".",
			Change: "Look at it, or at the network: no limit is the reason. abide asks again by itself, and what waits goes as soon as it works.",
		})
	}
	return list
}

// refusals are sites that refuse many requests.
func refusals(f *Facts) (list []status.Advice) {
	for site, s := range usageBy(f, siteOf) {
		share := float64(s.Refusals) / float64(max(s.Requests+s.Refusals, 1))
		if s.Refusals < fewestRefusals || share < refusedShare || site == store.Others {
			continue
		}
		change := "Write a limit for it under sites, a little below what it allows. Where it says that it is overloaded (529, or 503), no limit helps."
		for _, one := range f.Limits {
			if one.Site == site {
				change = "It allows less than the configuration says: lower the limits under sites, unless it says that it is overloaded (529, or 503)."
				break
			}
		}
		if slices.ContainsFunc(f.announced(site, ""), func(a status.Announced) bool { return a.Noise() }) {
			change = "It refuses whatever the rate is: no limit helps."
		}
		list = append(list, status.Advice{
			Site: site, Weight: share, Change: change,
			Text: fmt.Sprintf("%s refused %s of all attempts, %d in %s. They were sent again.", site, percent(share), s.Refusals, minutes(f.elapsed())),
		})
	}
	return list
}

// unread are sites whose https passed unread, so that their limits are not seen.
func unread(f *Facts) (list []status.Advice) {
	for _, one := range f.Unread {
		for _, why := range one.Reasons {
			if why.Remedy == "" || why.Connections < fewestUnread {
				continue
			}
			list = append(list, status.Advice{
				Site: one.Site, Weight: 0.3,
				Text:   fmt.Sprintf("%d https connections to %s have passed unread: %s. Its limits are not seen.", why.Connections, one.Site, why.Why()),
				Change: strings.ToUpper(why.Remedy[:1]) + why.Remedy[1:] + ".",
			})
		}
	}
	return list
}

// othersUse are limits of tokens of which others use a part.
func othersUse(f *Facts) (list []status.Advice) {
	suspect := map[string]bool{}
	for _, pool := range f.Tokens.Pools {
		for _, labels := range pool.Suspects() {
			for _, label := range labels {
				suspect[pool.Name+" "+label] = true
			}
		}
	}
	for _, pool := range f.Tokens.Pools {
		for _, token := range pool.Tokens {
			for _, l := range token.Limits {
				if l.Foreign < foreignShare || suspect[pool.Name+" "+token.Label] {
					continue
				}
				list = append(list, status.Advice{
					Site: l.Site, Token: token.Label, Weight: l.Foreign / 2,
					Text:   fmt.Sprintf("%s: %s of the use of %q of the token %s is not this abide's.", l.Site, percent(l.Foreign), l.Name(), token.Label),
					Change: "Let the other program use this abide as its proxy, give it a token of its own, or write account where tokens share an account.",
				})
			}
		}
	}
	return list
}

// deniedTokens finds tokens that sites do not accept.
func deniedTokens(f *Facts) (list []status.Advice) {
	for _, pool := range f.Tokens.Pools {
		for _, token := range pool.Denied() {
			until := ""
			if !token.Until.IsZero() {
				until = ", and it is not used until " + clock(token.Until, f.Now) + " UTC"
			}
			list = append(list, status.Advice{
				Token: token.Label, Weight: 1 / float64(len(pool.Tokens)),
				Text:   fmt.Sprintf("The token %s of the pool %s is not accepted (%s)%s.", token.Label, pool.Name, token.Why, until),
				Change: fmt.Sprintf("Replace %s, or remove it from the pool.", token.Label),
			})
		}
	}
	return list
}

// oneAccount are tokens whose limits move together.
func oneAccount(f *Facts) (list []status.Advice) {
	for _, pool := range f.Tokens.Pools {
		for _, labels := range pool.Suspects() {
			list = append(list, status.Advice{
				Weight: 0.2,
				Text:   fmt.Sprintf("The limits of the tokens %s of the pool %s are used together.", strings.Join(labels, " and "), pool.Name),
				Change: "If they belong to one account, say so with account, so that abide counts their requests together.",
			})
		}
	}
	return list
}
