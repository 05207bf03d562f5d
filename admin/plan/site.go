package plan

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// window is what one host or token has used of a SiteLimit.
type window struct {
	used int64
	ends time.Time
}

// site answers all requests of a simulation, as far as its limit lets it.
type site struct {
	limit   *SiteLimit // nil: none
	silent  bool
	windows map[windowKey]*window
	refused int
}

// windowKey says whose a window is.
type windowKey struct{ host, token string }

// answer is the answer to a request that arrives now.
func (s *site) answer(now time.Time, r *http.Request, token string, bytes int64) *http.Response {
	if s.limit == nil {
		return page(r, http.Header{}, bytes)
	}
	key := windowKey{host: r.URL.Host}
	if s.limit.ByToken {
		key.token = token
	}
	w := s.windows[key]
	if w == nil {
		w = &window{}
		s.windows[key] = w
	}
	if !now.Before(w.ends) {
		w.used, w.ends = 0, s.limit.ends(now)
	}
	fits := w.used < s.limit.Amount
	if fits {
		w.used++
	} else {
		s.refused++
	}
	head := s.head(w, now, fits)
	if !fits {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: head, Body: http.NoBody, Request: r}
	}
	return page(r, head, bytes)
}

// head is what the site announces.
func (s *site) head(w *window, now time.Time, fits bool) http.Header {
	if s.silent {
		return http.Header{}
	}
	reset := []string{strconv.Itoa(int(math.Ceil(w.ends.Sub(now).Seconds())))}
	head := http.Header{
		"X-Ratelimit-Limit":     {strconv.FormatInt(s.limit.Amount, 10)},
		"X-Ratelimit-Remaining": {strconv.FormatInt(s.limit.Amount-w.used, 10)},
		"X-Ratelimit-Reset":     reset,
	}
	if !fits {
		head["Retry-After"] = reset
	}
	return head
}

// page is an answer with a body of so many bytes.
func page(r *http.Request, head http.Header, bytes int64) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: unread{}, ContentLength: bytes, Request: r}
}

// unread is a body that nobody reads: its bytes pass by dispatch.Receive.
type unread struct{}

func (unread) Read([]byte) (int, error) { return 0, io.EOF }
func (unread) Close() error             { return nil }
