package store

import (
	"slices"
	"testing"
	"time"
)

// What is published comes from whoever can write to the channel.
func FuzzNews(f *testing.F) {
	for _, text := range []string{"", "!", "!site", "site", "@4:site", "@4:site4:cool2:300:3:429", "@4:site4:cool3:-301:03:429", "@9:site", "@-1:", "@1:a1:b20:999999999999999999991:11:x", "@:", "@"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		here := time.Unix(1_700_000_000, 0)
		n, ok := readNews(text, here)
		if !ok {
			return
		}
		size := len(n.Site)
		for _, one := range n.Notes {
			size += len(one.Key) + len(one.Text)
			if one.Until.Before(here) {
				t.Errorf("%+v is over", one)
			}
		}
		if size > len(text) || slices.ContainsFunc(n.Notes, func(note Note) bool { return note.Until.IsZero() }) {
			t.Errorf("got %+v", n)
		}
	})
}
