package policy

import "strings"

// didYouMean is the end of an error about an unknown word, such as `; did you mean "limits"?`,
// with the known word of which it is a likely misspelling; "" if there is none.
func didYouMean(wrong string, words []string) string {
	if suggestion := nearest(wrong, words); suggestion != "" {
		return `; did you mean "` + suggestion + `"?`
	}
	return ""
}

// nearest is the known word of which wrong is a likely misspelling; "" if there is none.
func nearest(wrong string, words []string) string {
	const longestWord = 64 // the distance is quadratic; longer words are no misspellings
	if wrong == "" || len(wrong) > longestWord {
		return ""
	}
	written := bare(wrong)
	best, least := "", 2*longestWord
	for _, w := range words {
		meant := bare(w)
		if written == meant {
			return w
		}
		if a, b := stem(written), stem(meant); len(b) > 2 && near(a, b) {
			if far := distance(a, b) + distance(written, meant); far < least {
				best, least = w, far
			}
		}
	}
	return best
}

// near tells whether a word is likely a misspelling of another. Both are bare stems.
func near(wrong, meant string) bool {
	short := min(len(wrong), len(meant))
	mistakes := 1
	switch {
	case short < 2:
		return false
	case short >= 12:
		mistakes = 3
	case short >= 7:
		mistakes = 2
	}
	if distance(wrong, meant) > mistakes {
		return false
	}
	if wrong[0] != meant[0] {
		// The first letter was left out or swapped with the second: cost is not a
		// misspelling of host, nor is ghost.
		left := len(wrong) > 3 && len(wrong) < len(meant)
		return wrong[0] == meant[1] && (left || wrong[1] == meant[0])
	}
	// In a short word, another letter makes another word: may is not max.
	return short > 4 || len(wrong) != len(meant) || sameLetters(wrong, meant)
}

// sameLetters tells whether two words are permutations of the same letters.
func sameLetters(a, b string) bool {
	for i := range len(a) {
		if strings.Count(a, a[i:i+1]) != strings.Count(b, a[i:i+1]) {
			return false
		}
	}
	return len(a) == len(b)
}

// bare removes separators: perSite, per-site and per_site are equal.
func bare(s string) string {
	s = strings.TrimPrefix(s, "ABIDE_") // the prefix of all variables
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s))
}

// stem is a word without its plural s.
func stem(s string) string {
	if len(s) > 4 {
		return strings.TrimSuffix(s, "s")
	}
	return s
}

// distance counts the letters to add, drop, change or swap with their
// neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
