package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// told is traffic in few words, by site.
func told(list []store.Row) string {
	var words []string
	for _, one := range list {
		words = append(words, fmt.Sprintf("%s %d/%d/%d", one.Site, one.Requests, one.In, one.Out))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func TestOnlyWhatIsNewIsRecorded(t *testing.T) {
	site := func(name string, requests, in, out uint64) metrics.SiteCount {
		return metrics.SiteCount{Counts: status.Counts{Name: name, Requests: requests, In: in, Out: out}}
	}
	var x tally
	for i, one := range []struct {
		now  []metrics.SiteCount
		want string
	}{
		{nil, ""},
		{[]metrics.SiteCount{site("a", 1, 10, 5), site("b", 2, 20, 6)}, "a 1/10/5, b 2/20/6"},
		{[]metrics.SiteCount{site("a", 1, 10, 5), site("b", 3, 20, 6)}, "b 1/0/0"},
		// a makes room, after it has counted a little more.
		{[]metrics.SiteCount{site("other", 2, 17, 5), site("b", 3, 20, 6), site("c", 0, 0, 1)}, "c 0/0/1, other 1/7/0"},
		// It comes back.
		{[]metrics.SiteCount{site("other", 2, 17, 5), site("b", 3, 20, 6), site("c", 0, 0, 1), site("a", 1, 3, 0)}, "a 1/3/0"},
		// b leaves and comes back at once, with less than it had.
		{[]metrics.SiteCount{site("other", 5, 37, 12), site("b", 1, 1, 1), site("c", 0, 0, 1), site("a", 1, 3, 0)}, "b 1/1/1, other 0/0/1"},
	} {
		if got := told(x.since(one.now)); got != one.want {
			t.Errorf("%d: %s, want %s", i, got, one.want)
		}
	}
}

func TestWhateverSitesMakeRoomEveryByteIsRecordedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := metrics.New(rapid.IntRange(1, 4).Draw(t, "labels"))
		var x tally
		var in, out, requests, seenIn, seenOut, seenRequests int64
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			site := m.Site(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "other"}).Draw(t, "site"))
			n := rapid.IntRange(0, 1000).Draw(t, "n")
			site.Read(n)
			site.Wrote(n / 2)
			site.Request("GET", 200, 0)
			in, out, requests = in+int64(n), out+int64(n/2), requests+1
			if rapid.Bool().Draw(t, "look") {
				continue
			}
			for _, one := range x.since(m.Sites()) {
				if one.In < 0 || one.Out < 0 || one.Requests < 0 {
					t.Fatalf("%+v", one)
				}
				seenIn, seenOut, seenRequests = seenIn+one.In, seenOut+one.Out, seenRequests+one.Requests
			}
			if seenIn != in || seenOut != out || seenRequests != requests {
				t.Fatalf("%d/%d/%d of %d/%d/%d", seenRequests, seenIn, seenOut, requests, in, out)
			}
		}
	})
}
