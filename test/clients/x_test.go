package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// xAPI is api.twitter.com as it counts: each token has so many requests for each
// endpoint in a window, which begins with the first of them and ends at a whole
// second, which it announces.
type xAPI struct {
	limit  int
	window time.Duration
	pages  int             // of retweeters that a tweet has
	tokens map[string]bool // Authorization that it accepts

	mu       sync.Mutex
	windows  map[[2]string]*xWindow // :: endpoint, Authorization → its window
	arrivals []xArrival             // that the budget of retweeters was asked for
	refused  int
	unknown  []string // Authorization that it did not accept
}

type xWindow struct {
	used  int
	reset time.Time
}

// xArrival is a request for retweeters.
type xArrival struct {
	at    time.Time
	first time.Time // reset of the window that ends first, of all tokens
}

// perPage is how many users a page has.
const perPage = 3

func (x *xAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tweet, ok := strings.CutPrefix(r.URL.Path, "/2/tweets/")
	endpoint := "tweet"
	if id, of := strings.CutSuffix(tweet, "/retweeted_by"); of {
		endpoint, tweet = "retweeters", id
	}
	if !ok || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch x.admit(w.Header(), endpoint, r.Header["Authorization"]) {
	case http.StatusUnauthorized:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"title":"Unauthorized","type":"about:blank","status":401,"detail":"Unauthorized"}`)
	case http.StatusTooManyRequests:
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"errors":[{"code":88,"message":"Rate limit exceeded"}]}`)
	default:
		x.answer(w, endpoint, tweet, r.URL.Query().Get("pagination_token"))
	}
}

// admit counts a request, and answers its status.
func (x *xAPI) admit(h http.Header, endpoint string, tokens []string) int {
	token := strings.Join(tokens, ", ")
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.tokens[token] {
		x.unknown = append(x.unknown, token)
		return http.StatusUnauthorized
	}
	now := time.Now()
	if endpoint == "retweeters" {
		x.arrivals = append(x.arrivals, xArrival{now, x.firstReset()})
	}
	window := x.windows[[2]string{endpoint, token}]
	if window == nil || !now.Before(window.reset) {
		window = &xWindow{reset: now.Truncate(time.Second).Add(x.window)}
		x.windows[[2]string{endpoint, token}] = window
	}
	served := window.used < x.limit
	if served {
		window.used++
	} else {
		x.refused++
	}
	h.Set("x-rate-limit-limit", strconv.Itoa(x.limit))
	h.Set("x-rate-limit-remaining", strconv.Itoa(x.limit-window.used))
	h.Set("x-rate-limit-reset", strconv.FormatInt(window.reset.Unix(), 10))
	if !served {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// firstReset is zero as long as a token is unused.
func (x *xAPI) firstReset() time.Time {
	var first time.Time
	n := 0
	for of, one := range x.windows {
		if of[0] != "retweeters" {
			continue
		}
		if n++; first.IsZero() || one.reset.Before(first) {
			first = one.reset
		}
	}
	if n < len(x.tokens) {
		return time.Time{}
	}
	return first
}

func (x *xAPI) answer(w http.ResponseWriter, endpoint, tweet, token string) {
	if endpoint == "tweet" {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"id": tweet, "text": "hello"}})
		return
	}
	page, _ := strconv.Atoi(token) // the first has none
	var users []map[string]string
	for _, name := range retweetersOf(tweet, page) {
		users = append(users, map[string]string{"id": "1" + name[1:], "name": name, "username": name})
	}
	meta := map[string]any{"result_count": len(users)}
	if page+1 < x.pages {
		meta["next_token"] = strconv.Itoa(page + 1)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": users, "meta": meta})
}

// retweetersOf are the users on a page.
func retweetersOf(tweet string, page int) []string {
	names := make([]string, perPage)
	for i := range names {
		names[i] = fmt.Sprintf("u%s%04d", tweet, page*perPage+i)
	}
	return names
}
