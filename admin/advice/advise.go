package advice

import (
	"cmp"
	"slices"

	"github.com/abide-proxy/abide/status"
)

// most bounds a list of advice.
const most = 50

// rules are all rules, by the name that Advice.Rule has.
var rules = []struct {
	name string
	of   func(*Facts) []status.Advice
}{
	{"limit", busyLimits},
	{"limit-below-announced", belowAnnounced},
	{"one-client", oneClient},
	{"refusals", refusals},
	{"others-use-token", othersUse},
	{"one-account", oneAccount},
	{"priority", longPriorities},
	{"shared-name", sharedNames},
	{"unread", unread},
}

// Advise is all advice, that about most of the time first.
func Advise(f Facts) status.AdviceList {
	list := []status.Advice{}
	for _, rule := range rules {
		for _, one := range rule.of(&f) {
			one.Rule = rule.name
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b status.Advice) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Text, b.Text))
	})
	return status.AdviceList{Since: f.Since.UTC(), Until: f.Now.UTC(), Advice: list[:min(len(list), most)]}
}
