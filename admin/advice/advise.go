package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// most bounds a list of advice, and trivial the weight of advice that is not worth a word unless it is about a fault.
const most, trivial = 50, 0.05

// faults are the rules about what does not work. What they find is told first.
var faults = []string{"outage", "refuses-all", "denied-token"}

// rules are all rules, by the name that Advice.Rule has.
var rules = []struct {
	name string
	of   func(*Facts) []status.Advice
}{
	{"outage", outages},
	{"refuses-all", refusesAll},
	{status.GivenUp, givenUp},
	{status.OwnAnswers, ownAnswers},
	{"limit", busyLimits},
	{"limit-below-announced", belowAnnounced},
	{"one-client", oneClient},
	{"refusals", refusals},
	{"denied-token", deniedTokens},
	{"others-use-token", othersUse},
	{"one-account", oneAccount},
	{"priority", longPriorities},
	{"unread", unread},
}

// Advise is all advice, faults first, then that about most of the time, and of the same time in the order of the rules.
// Of a site that does not work, its faults alone are told.
func Advise(f Facts) status.AdviceList {
	f.usage = usageBy(&f, func(k store.Row) string { return k.Site })
	list := []status.Advice{}
	for _, rule := range rules {
		found := rule.of(&f)
		slices.SortFunc(found, func(a, b status.Advice) int {
			return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Text, b.Text))
		})
		for _, one := range found {
			if one.Rule = rule.name; slices.Contains(faults, rule.name) || one.Weight >= trivial && !slices.ContainsFunc(f.Broken, func(b status.Breaker) bool { return b.Site == one.Site && b.Backend == "" }) {
				list = append(list, one)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b status.Advice) int {
		rank := func(a status.Advice) int { return min(slices.Index(faults, a.Rule), 0) } // -1: no fault
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Weight, a.Weight))
	})
	list = fold(list)
	return status.AdviceList{Since: f.Since.UTC(), Until: f.Now.UTC(), Advice: list[:min(len(list), most)]}
}

// cooldown is the pause of a site after refusals, as a sentence, and what helps; "" for none.
func (f *Facts) cooldown(site string) (text, change string) {
	if c := lists.Find(f.Cooldowns, func(c *status.Cooldown) bool { return c.Site == site }); c != nil {
		return c.Text(), "It is asked again at " + clock(c.Until, f.Now) + " UTC: until then, send fewer requests in all, or get a larger limit."
	}
	return "", ""
}

// fewestAlike counts the pieces of advice that have to be alike to be told as one, and mostNamed bounds the subjects that
// its text names.
const fewestAlike, mostNamed = 4, 5

// fold tells advice that differs in its subject and in numbers alone as one, with the subjects.
func fold(list []status.Advice) []status.Advice {
	folded := []status.Advice{}
	same := map[string][]string{} // :: what is alike → subjects
	for _, a := range list {
		same[pattern(a)] = append(same[pattern(a)], a.Subject())
	}
	for _, a := range list {
		key := pattern(a)
		if subjects := same[key]; len(subjects) >= fewestAlike {
			if subjects[0] != a.Subject() {
				continue
			}
			a.Others = subjects[1:]
			a.Text += fmt.Sprintf(" The same is so of %d others: %s.", len(a.Others), status.FirstOf(a.Others, mostNamed))
		}
		folded = append(folded, a)
	}
	return folded
}

// pattern returns the words of advice without its subject and numbers.
func pattern(a status.Advice) string {
	words := []string{a.Rule}
	for _, word := range strings.Fields(a.Text + " " + a.Change) {
		bare := strings.Trim(word, `.,:;()"`)
		if bare != "" && !slices.Contains([]string{a.Subject(), "min", "s"}, bare) && (bare[0] < '0' || bare[0] > '9') {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func percent(share float64) string {
	if share > 0 && share < 0.005 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// clock is a time of day, with its date if it is not within a day.
func clock(at, now time.Time) string {
	if at.Sub(now) < 24*time.Hour {
		return at.UTC().Format("15:04:05")
	}
	return at.UTC().Format("2006-01-02 15:04")
}

// Facts are the numbers from which advice is computed.
type Facts struct {
	Now       time.Time
	Since     time.Time     // when History begins
	Active    time.Duration // of the minutes in which anything was counted
	History   store.History // all of it together
	Failed    []store.Row   // the part of it that is of the last minutes, see Lately
	Limits    []status.Limit
	Tokens    status.Tokens
	Pools     map[string]string            // :: site → its pool, "" for none
	Waiting   map[string]queue.SiteWaiting // :: site → the requests that wait
	Unread    []status.SiteUnread
	Broken    []status.Breaker        // those that are not closed
	Paused    map[string]status.Pause // :: site → its pause
	Cooldowns []status.Cooldown
	usage     map[string]store.Row // :: site → what became of its requests
}

// least is the least time that advice goes by: of less, too little is known.
const least = 10 * time.Second

// elapsed is the time that History is about, without the minutes in which nothing happened.
func (f *Facts) elapsed() time.Duration { return max(f.Active, least) }

// share is the part of the time for which a limit held any request.
func (f *Facts) share(b store.Row) float64 {
	return min(float64(b.Busy)/float64(f.elapsed()), 1)
}

// limits are the limits of the configuration with a site and a name, one for each token, client
// or other that has the limit for itself.
func (f *Facts) limits(site, name string) []status.Limit {
	return lists.Only(f.Limits, func(l status.Limit) bool { return l.Site == site && l.Limit == name })
}

// announced are the limits with a site and a name that the site has announced, of all tokens.
func (f *Facts) announced(site, name string) (list []status.Announced) {
	for _, pool := range f.Tokens.Pools {
		for _, token := range pool.Tokens {
			list = append(list, token.Limits...)
		}
	}
	return slices.DeleteFunc(append(list, f.Tokens.Limits...), func(l status.Announced) bool { return l.Site != site || name != "" && l.Name() != name })
}

// usable are the tokens of a pool that are neither disabled nor quarantined.
func (f *Facts) usable(pool string) (n int) {
	if known := f.Tokens.Find(pool); known != nil {
		n = len(lists.Only(known.Tokens, func(t status.Token) bool { return !t.Away() }))
	}
	return n
}
