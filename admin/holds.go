package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/abide-proxy/abide/status"
)

// usualHolds is the number of waiting requests that the API lists, unless it is asked for more.
const usualHolds = 1000

// holder knows the requests that wait, at most so many: of one site, or "" for all.
type holder interface {
	Holds(site string, most int) []status.Hold
}

// listHolds lists what waits: of one site with ?site=, at most ?limit= of them.
func listHolds(from holder, w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the query cannot be read")
		return
	}
	most := usualHolds
	if text := query.Get("limit"); query.Has("limit") {
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > status.MaxHolds {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", status.MaxHolds))
			return
		}
	}
	list := from.Holds(query.Get("site"), most+1)
	more := len(list) > most
	if more {
		list = list[:most]
	}
	for i := range list {
		list[i].Until, list[i].Expected = list[i].Until.UTC(), list[i].Expected.UTC()
	}
	if list == nil {
		list = []status.Hold{}
	}
	answerJSON(w, status.HoldList{Holds: list, More: more})
}
