package policy

import "strings"

// didYouMean is `; did you mean "limits"?` for the word that is nearest to a
// misspelt one, or nothing when none is near.
func didYouMean(wrong string, words []string) string {
	if near := nearest(wrong, words); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}

func nearest(wrong string, words []string) string {
	const longestWord = 64 // the distance is quadratic, and what is longer is no typo
	if wrong == "" || len(wrong) > longestWord {
		return ""
	}
	plainWrong := bare(wrong)
	best, least := "", len(wrong)/3+1
	for _, w := range words {
		far := distance(plainWrong, bare(w))
		if far == 0 {
			return w
		}
		if len(w) > 2 && (far < least || far == least && best == "") {
			best, least = w, far
		}
	}
	return best
}

// bare forgets how words are joined: perSite, per-site and per_site are one.
func bare(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s))
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
