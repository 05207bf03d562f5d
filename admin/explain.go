package admin

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// Bounds of what may be asked for, in bytes.
const (
	maxURL    = 8 << 10
	maxMethod = 32
	maxClient = 64
)

// explain tells what ?url= would meet now, asked for with ?method= by ?client=.
func explain(from Process, w http.ResponseWriter, r *http.Request) {
	query, ok := anyQuery(w, r)
	if !ok {
		return
	}
	for name, most := range map[string]int{"url": maxURL, "method": maxMethod, "client": maxClient} {
		if n := len(query[name]); n > 1 || len(query.Get(name)) > most {
			refuse(w, http.StatusBadRequest, name+" is there more than once, or too long")
			return
		}
	}
	if query.Get("url") == "" {
		refuse(w, http.StatusBadRequest, "url is missing: /api/v1/explain?url=https://example.com/path")
		return
	}
	method := cmp.Or(query.Get("method"), http.MethodGet)
	if strings.ContainsFunc(method, notInMethod) {
		refuse(w, http.StatusBadRequest, "method is none")
		return
	}
	e, err := from.Explain(method, query.Get("url"), query.Get("client"))
	if err != nil {
		refuse(w, http.StatusBadRequest, status.ErrorLine(err))
		return
	}
	answerJSON(w, e.Normalize(time.Now()))
}

// notInMethod is stricter than RFC 9110 needs: no method that anybody uses has
// anything else.
func notInMethod(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-'
}
