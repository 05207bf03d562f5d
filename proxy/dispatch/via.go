package dispatch

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// pseudonym is what this process calls itself in Via. Sites never see it:
// it goes out only to a next hop, where a ring of proxies could close.
type pseudonym string

// newPseudonym is made anew by each process.
func newPseudonym() pseudonym {
	var b [8]byte
	rand.Read(b[:])
	return pseudonym("abide-" + hex.EncodeToString(b[:]))
}

// Passed tells whether a request with these Via headers was here before.
func (st *Snapshot) Passed(via []string) bool {
	for _, v := range via {
		if strings.Contains(v, string(st.name)) {
			return true
		}
	}
	return false
}

// JoinVia is the chain of proxies that a request has passed: those that its
// CONNECT named and those that it names itself.
func JoinVia(before string, lines []string) string {
	if len(lines) == 0 {
		return before
	}
	own := strings.Join(lines, ", ")
	if before == "" {
		return own
	}
	return before + ", " + own
}

// SignVia has a request with a URL of a scheme, which goes to a next hop, carry the chain of
// proxies that it has passed: via, those in its headers, and this process where the request
// goes in the open. A request that goes through a CONNECT there is signed on the CONNECT.
func (st *Snapshot) SignVia(scheme string, r *http.Request, via string) *http.Request {
	if st.nextHop == nil {
		return r
	}
	chain := JoinVia(via, r.Header["Via"])
	if scheme == "http" {
		r.Header["Via"] = []string{JoinVia(chain, []string{"1.1 " + string(st.name)})}
	}
	return r.WithContext(upstream.WithVia(r.Context(), chain))
}
