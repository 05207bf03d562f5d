package admin

import (
	"cmp"
	"errors"
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
func explain(from Process, _ http.ResponseWriter, r *http.Request) (any, error) {
	query, err := anyQuery(r)
	if err != nil {
		return nil, err
	}
	for name, most := range map[string]int{"url": maxURL, "method": maxMethod, "client": maxClient} {
		if n := len(query[name]); n > 1 || len(query.Get(name)) > most {
			return nil, errors.New(name + " is there more than once, or too long")
		}
	}
	method := cmp.Or(query.Get("method"), http.MethodGet)
	switch {
	case query.Get("url") == "":
		return nil, errors.New("url is missing: /api/v1/explain?url=https://example.com/path")
	case strings.ContainsFunc(method, notInMethod):
		return nil, errors.New("method is none")
	}
	e, err := from.Explain(method, query.Get("url"), query.Get("client"))
	if err != nil {
		return nil, because(http.StatusBadRequest, status.ErrorLine(err))
	}
	return e.Normalize(time.Now()), nil
}

// notInMethod is stricter than RFC 9110 needs: no method that anybody uses has
// anything else.
func notInMethod(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-'
}
