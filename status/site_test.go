package status

import (
	"strings"
	"testing"
	"time"
)

// TestASiteHasOneWordForItsState: in abide sites, abide top and on the page.
func TestASiteHasOneWordForItsState(t *testing.T) {
	losing := Losing([]Advice{{Rule: GivenUp, Site: "lost.test", Others: []string{"too.test"}, Weight: 1, Lately: true}, {Rule: GivenUp, Site: "over.test", Weight: 1}})
	var list SiteList
	for name, s := range map[string]Site{"lost.test": {}, "too.test": {}, "over.test": {}, "paused.test": {Paused: &Pause{}}, "down.test": {Breaker: "open", Loses: true}, "part.test": {Breaker: "closed", Breakers: []Breaker{{Backend: "b"}}}} {
		s.Name, s.Loses = name, s.Loses || losing[name]
		list.Sites = append(list.Sites, s)
	}
	var text strings.Builder
	list.Describe(&text, time.Unix(0, 0))
	for name, word := range map[string]string{"lost.test": "loses requests", "too.test": "loses requests", "over.test": "ok", "paused.test": "paused", "down.test": "left alone", "part.test": "1 backend fails"} {
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, name) && !strings.HasSuffix(line, "  "+word+"\n") {
				t.Errorf("%s is not %s: %s", name, word, line)
			}
		}
	}
}
