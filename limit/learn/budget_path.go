package learn

import (
	"fmt"
	"strings"
)

// maxBudgetPathSegments bounds the segments of a path in Dialect.Apart.
const maxBudgetPathSegments = 12

// entitySegment is the position, from 1, of the path segment that distinguishes budgets
// which the server gives the same name. For /v1/projects/7/jobs it is 3, where each project
// has a budget of its own. 0: none.
func (d *Dialect) entitySegment(path string) int {
	for _, pattern := range d.Apart {
		if n := matchedSegments(path, pattern); n > 0 {
			return n
		}
	}
	return 0
}

// matchedSegments is the number of segments of a pattern that the path begins with, or 0.
func matchedSegments(path, pattern string) (n int) {
	path, more := strings.CutPrefix(path, "/")
	for pattern, another := pattern[1:], true; another; n++ {
		var want, is string
		want, pattern, another = strings.Cut(pattern, "/")
		if !more {
			return 0
		}
		is, path, more = strings.Cut(path, "/")
		if is == "" || want != "*" && want != is {
			return 0
		}
	}
	return n
}

// checkBudgetPath tells what is wrong with a path of Dialect.Apart.
func checkBudgetPath(path string) error {
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/*") {
		return fmt.Errorf("%q does not begin with a slash and end with the segment that tells budgets apart, as /v1/projects/* does", path)
	}
	segments := strings.Split(path[1:], "/")
	if len(segments) > maxBudgetPathSegments {
		return fmt.Errorf("%q has more than %d segments", path, maxBudgetPathSegments)
	}
	for _, one := range segments {
		if one == "" || one != "*" && strings.Contains(one, "*") {
			return fmt.Errorf("%q: each segment is a name, or a * for any", path)
		}
	}
	return nil
}
