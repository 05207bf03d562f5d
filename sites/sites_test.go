package sites

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// What is learned again of a site is news to those who wait there, although more was
// known of it once.
func TestASiteThatHasLeftIsLearnedAgain(t *testing.T) {
	sites := New(Options{})
	first := sites.Open("site.test")
	for i := range 50 {
		c, _ := first.Class("GET", "", fmt.Sprint("/", i), 0)
		first.learn(&Answer{At: time.Now(), Class: c, Budget: "", Sent: time.Now(), Lesson: &learn.Lesson{Limits: []learn.Limit{{Bucket: fmt.Sprint(i), Remaining: learn.Amount{Known: true, N: 9}}}}})
	}
	was := first.Version()
	for i := range 20 * shards * mostSites {
		sites.Open(fmt.Sprint("site", i, ".test"))
	}
	again := sites.Open("site.test")
	if again == first {
		t.Fatal("the site is still there")
	}
	if _, got := again.Class("GET", "", "/0", 0); got < was || again.Version() < was || was == 0 {
		t.Errorf("version %d after %d", got, was)
	}
}
