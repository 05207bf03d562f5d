package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
		if strings.HasPrefix(b.Why, "it answers "+forbidden) {
			continue // refusesAll says what may help
		}
		list = append(list, status.Advice{
			Site: b.Site, Weight: 1, Text: strings.TrimSuffix(fmt.Sprintf("%s does not work: %s, %s", b.Name(), b.Why, status.Since(b.Since, f.Now)), ", ") + ".",
			Change: "Look at it, or at the network: no limit is the reason. abide asks again for 502, 503, 504 and connections that fail; other answers reach the client.",
		})
	}
	return list
}

// refusals are sites that refuse many requests, or hold requests for long because they have refused some.
func refusals(f *Facts) (list []status.Advice) {
	held, longest := map[string]float64{}, map[string]time.Duration{} // :: site → the part of the time, and the time
	for _, b := range f.History[store.BlockedRows] {
		if f.followsRefusals(b) {
			held[b.Site], longest[b.Site] = max(held[b.Site], f.share(b)), max(longest[b.Site], b.Busy)
		}
	}
	for site, s := range f.usage {
		share := float64(s.Refusals) / float64(max(s.Requests+s.Refusals, 1))
		if (s.Refusals < fewestRefusals || share < refusedShare) && held[site] < busyShare || site == store.Others {
			continue
		}
		text := fmt.Sprintf("%s refused %s of all attempts, %d of %d. They were sent again.", site, percent(share), s.Refusals, s.Requests+s.Refusals)
		if held[site] >= busyShare {
			text += fmt.Sprintf(" Requests were held for %s of the last hour because of that.", status.Long(min(longest[site], f.elapsed())))
		}
		pause, change := f.cooldown(site)
		if pause != "" {
			text += " Now " + pause + "."
		}
		list = append(list, status.Advice{Site: site, Weight: max(share, held[site]), Text: text, Change: cmp.Or(change, f.changeRefused(site))})
	}
	return list
}

// followsRefusals reports whether a limit that held requests is there because the site refused some.
func (f *Facts) followsRefusals(b store.Row) bool {
	pause := b.Limit == "cooldown" || b.Limit == "retry"
	return f.usage[b.Site].Refusals > 0 && (pause || strings.HasPrefix(b.Limit, status.HiddenTitle) || len(f.hidden(b.Site, b.Limit)) > 0)
}

// hidden are those of announced that the site does not announce, first those of which something was found.
func (f *Facts) hidden(site, name string) []status.Announced {
	list := slices.DeleteFunc(f.announced(site, name), func(a status.Announced) bool { return a.State != status.Hidden })
	slices.SortStableFunc(list, func(a, b status.Announced) int { return cmp.Compare(len(b.FoundText()), len(a.FoundText())) })
	return list
}

// written reports whether the configuration limits what a site gets over time.
func (f *Facts) written(site string) bool {
	return slices.ContainsFunc(f.Limits, func(l status.Limit) bool { return l.Site == site && l.Window > 0 })
}

// changeRefused describes what would help against refusals of a site.
func (f *Facts) changeRefused(site string) string {
	switch found := f.hidden(site, ""); {
	case f.written(site):
		return "If it has refused since the limits of its rule were written, it allows less: lower the limits, unless it says that it is overloaded (529, or 503)."
	case len(found) > 0:
		return f.changeHidden(site, found)
	}
	return "Where it was away or overloaded (503, 529), or refuses at random, no limit helps. If it names a limit in its documents, write the limit under sites."
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
			until, gain := "", ""
			if n := f.usable(pool.Name); n > 0 {
				gain = fmt.Sprintf(" An accepted token in its place would give %s more.", percent(1/float64(n)))
			}
			if !token.Until.IsZero() {
				until = ", and it is not used until " + clock(token.Until, f.Now) + " UTC"
			}
			list = append(list, status.Advice{
				Token: token.Label, Weight: 1 / float64(len(pool.Tokens)),
				Text:   fmt.Sprintf("The token %s of the pool %s is not accepted (%s)%s.", token.Label, pool.Name, token.Why, until),
				Change: fmt.Sprintf("Replace %s, or remove it from the pool.%s", token.Label, gain),
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
