package admin

import (
	"net/http"
	"time"

	"github.com/abide-proxy/abide/status"
)

// mostRequests bounds the number of requests that a question names.
const mostRequests = 1 << 50

// forecast tells of ?site=, or of all, and when ?requests= more would be done.
func forecast(from Proxy, w http.ResponseWriter, r *http.Request) {
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

// advice answers what would help.
func advice(from Process, w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, from.Advice(time.Now()))
}
