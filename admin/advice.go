package admin

import (
	"net/http"
	"time"

	"github.com/abide-proxy/abide/status"
)

// adviser knows which limits hold requests back, and what would change that.
type adviser interface {
	Advice(now time.Time) status.AdviceList
}

// advice answers what would help.
func advice(from adviser, w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, from.Advice(time.Now()))
}
