package upstream

import (
	"testing"
	"time"
)

func TestASliceGrowsWhileItIsQuickAndShrinksWhenItIsSlow(t *testing.T) {
	size := int64(smallSlice)
	for _, c := range []struct {
		took time.Duration
		want int64
	}{
		{time.Millisecond, 2 * smallSlice},
		{50 * time.Millisecond, 2 * smallSlice},
		{time.Millisecond, 4 * smallSlice},
		{time.Second, smallSlice},
		{time.Second, smallSlice},
	} {
		if size = resize(size, c.took, uncountedTime); size != c.want {
			t.Errorf("after %v: %d, want %d", c.took, size, c.want)
		}
	}
	for range 20 {
		size = resize(size, 0, uncountedTime)
	}
	if size != largeSlice {
		t.Errorf("grew to %d", size)
	}
}
