package dispatch

import (
	"testing"

	"github.com/abide-proxy/abide/status"
)

func TestTokensHaveOneMeasuredWindowOfALimit(t *testing.T) {
	of := func(token, title string, window float64) LimitStatus {
		return LimitStatus{Announced: status.Announced{Site: "api.test", Title: title, Limit: 6, Window: window}, Pool: "p", Token: token}
	}
	list := []LimitStatus{
		of("a", "6 requests", 12), of("b", "6 requests", 8), of("c", "6 requests", 9), of("d", "6 requests", 0),
		of("a", "6 requests per 5s", 5), of("b", "6 requests per 5s", 6),
	}
	agree(list)
	for i, want := range []float64{8, 8, 8, 0, 5, 6} {
		if list[i].Window != want {
			t.Errorf("%s of %s: %g s, want %g", list[i].Title, list[i].Token, list[i].Window, want)
		}
	}
}
