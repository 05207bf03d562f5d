package admin

import (
	"cmp"
	"slices"

	"github.com/abide-proxy/abide/status"
)

// maxScarce is how many limits of one token the page has room for.
const maxScarce = 6

// scarce are the limits of a token that have the least left, the scarcest first.
func scarce(limits []status.Announced) []status.Announced {
	sorted := slices.SortedStableFunc(slices.Values(limits), func(a, b status.Announced) int { return cmp.Compare(a.LeftShare(), b.LeftShare()) })
	return sorted[:min(len(sorted), maxScarce)]
}

// first are as many as the page lists.
func first[T any](list []T) []T { return list[:min(len(list), status.MaxListed)] }

// tones are how states of tokens look.
var tones = map[string]string{"ready": "good", "quarantined": "bad", "disabled": "faint"}
