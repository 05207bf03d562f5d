package lists

import (
	"slices"
	"strconv"
	"testing"
)

func TestMapKeepsTheOrder(t *testing.T) {
	if got := Map([]int{3, 1, 2}, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "2"}) {
		t.Errorf("%q", got)
	}
	if got := Map([]int{}, strconv.Itoa); got != nil {
		t.Errorf("%q of nothing", got)
	}
}
