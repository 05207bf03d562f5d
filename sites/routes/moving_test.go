package routes

import (
	"fmt"
	"testing"
	"time"
)

// A bucket's reset is when it is full. Two routes that take from one show resets that
// move with what is left, and are not two limits by that.
func TestTwoRoutesOfABucketStayTogether(t *testing.T) {
	v := visiting(t, "api.test")
	for n, left := range []int{5, 3, 4, 3, 5, 4, 3, 5, 4, 3} {
		path := []string{"/a", "/b"}[n%2]
		v.ask("t", fmt.Sprintf("GET %s 200 | X-RateLimit-Limit: 40 | X-RateLimit-Remaining: %d | X-RateLimit-Reset: %d", path, left, (40-left)/2+1))
		v.now = v.now.Add(5 * time.Second)
		if n > 0 {
			v.sameIDs("GET /a", "GET /b")
		}
	}
}
