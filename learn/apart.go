package learn

import (
	"fmt"
	"strings"
)

// mostApart is how deep in a path something may tell budgets apart.
const mostApart = 12

// Apart is which segment of a request's path tells budgets apart that the server
// calls by one name, from 1 on: of /v1/projects/7/jobs it is 3, where each project
// has its own. 0 is none.
func Apart(request Request) int {
	var room [most]*Dialect
	for _, d := range builtin.of(&request, room[:0]) {
		for _, pattern := range d.Apart {
			if n := begins(request.Path, pattern); n > 0 {
				return n
			}
		}
	}
	return 0
}

// begins is how many segments a pattern has that a path begins with, or 0.
func begins(path, pattern string) (n int) {
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

// checkApart says what is wrong with a path of Dialect.Apart.
func checkApart(path string) error {
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/*") {
		return fmt.Errorf("%q does not begin with a slash and end with the segment that tells budgets apart, as /v1/projects/* does", path)
	}
	segments := strings.Split(path[1:], "/")
	if len(segments) > mostApart {
		return fmt.Errorf("%q has more than %d segments", path, mostApart)
	}
	for _, one := range segments {
		if one == "" || one != "*" && strings.Contains(one, "*") {
			return fmt.Errorf("%q: each segment is a name, or a * for any", path)
		}
	}
	return nil
}
