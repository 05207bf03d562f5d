package admin

import (
	"net/http"

	"github.com/abide-proxy/abide/status"
)

// usualHolds is the number of waiting requests that the API lists, unless it is asked for more.
const usualHolds = 1000

// listHolds lists what waits: of one site with ?site=, at most ?limit= of them.
func listHolds(from Proxy, w http.ResponseWriter, r *http.Request) {
	query, ok := anyQuery(w, r)
	if !ok {
		return
	}
	most, err := numberOf(query, "limit", usualHolds, 1, status.MaxHolds)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	list := from.Holds(query.Get("site"), most+1)
	more := len(list) > most
	list = list[:min(len(list), most)]
	for i := range list {
		list[i].Until, list[i].Expected = list[i].Until.UTC(), list[i].Expected.UTC()
	}
	if list == nil {
		list = []status.Hold{}
	}
	answerJSON(w, status.HoldList{Holds: list, More: more})
}
