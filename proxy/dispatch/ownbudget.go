package dispatch

import (
	"hash/maphash"
	"net/http"
	"strconv"
)

// ownPrefix begins the names of the budgets of clients' own credentials.
const ownPrefix = "own "

// fingerprints is this process's alone, so what is made by it cannot be looked up.
var fingerprints = maphash.MakeSeed()

// ownBudget tells the credentials of clients apart, where no pool replaces them: a
// site counts for each.
func ownBudget(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return ""
	}
	return ownPrefix + strconv.FormatUint(maphash.String(fingerprints, values[0]), 36)
}
