package admin

import (
	"net/http"
	"time"

	"github.com/abide-proxy/abide/status"
)

// mostRequests bounds the number of requests that a question names.
const mostRequests = 1 << 50

// forecaster tells when what is left ends, of one site or of all, and when so many more
// requests would be done.
type forecaster interface {
	Forecast(site string, requests int64) []status.Forecast
}

// forecast tells of ?site=, or of all, and when ?requests= more would be done.
func forecast(from forecaster, w http.ResponseWriter, r *http.Request) {
	query, ok := queryOf(w, r, "site", "requests")
	if !ok {
		return
	}
	requests, err := numberOf[int64](query, "requests", 0, 0, mostRequests)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	answerJSON(w, status.NormalizeForecasts(from.Forecast(query.Get("site"), requests), time.Now()))
}

// adviser knows which limits hold requests back, and what would change that.
type adviser interface {
	Advice(now time.Time) status.AdviceList
}

// advice answers what would help.
func advice(from adviser, w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, from.Advice(time.Now()))
}
