package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
)

// site answers all requests of a simulation, as far as its limit lets it.
type site struct {
	limit   *SiteLimit // nil: none
	silent  bool
	windows map[windowKey]limit.Meter
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
		w = s.limit.meter()
		s.windows[key] = w
	}
	fits := w.Left(now) > 0
	if fits {
		w.Take(now, 1)
		w.Done(now, now, 1, limit.Success) // it has arrived
	} else {
		s.refused++
	}
	head := s.head(w, now, fits)
	if !fits {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: head, Body: http.NoBody, Request: r}
	}
	return page(r, head, bytes)
}

// head returns the headers by which the site announces its limit.
func (s *site) head(w limit.Meter, now time.Time, fits bool) http.Header {
	if s.silent {
		return http.Header{}
	}
	ends, _ := w.When(now, s.limit.Amount) // when all may be taken
	reset := []string{strconv.Itoa(int(math.Ceil(ends.Sub(now).Seconds())))}
	head := http.Header{
		"X-Ratelimit-Limit":     {strconv.FormatInt(s.limit.Amount, 10)},
		"X-Ratelimit-Remaining": {strconv.FormatInt(w.Left(now), 10)},
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

// SiteLimit is the limit that simulated sites have: so many requests in a window, which
// opens with its first request, or in a period of the calendar in UTC.
type SiteLimit struct {
	Amount  int64
	Per     policy.Period
	ByToken bool // each token has the limit for itself; otherwise each host has one
}

// ParseSiteLimit reads "900 per 15m" and "900 per 15m by token".
func ParseSiteLimit(text string) (*SiteLimit, error) {
	amount, byToken := strings.CutSuffix(strings.TrimSpace(text), " by token")
	quoted, err := json.Marshal(strings.TrimSpace(amount))
	if err != nil {
		return nil, err
	}
	limits, err := policy.ParseLimits([]byte(`{"limits": [{"requests": ` + string(quoted) + `}]}`))
	if err != nil || len(limits) != 1 {
		why := ""
		if faults, ok := errors.AsType[policy.Faults](err); ok {
			why = ": " + faults[0].Text
		}
		return nil, fmt.Errorf(`%q is not a limit such as "900 per 15m" or "900 per 15m by token"%s`, text, why)
	}
	return &SiteLimit{Amount: limits[0].Amount, Per: limits[0].Per, ByToken: byToken}, nil
}

// String is the limit as ParseSiteLimit reads it.
func (l *SiteLimit) String() string {
	text := fmt.Sprintf("%d per %s", l.Amount, l.Per)
	if l.ByToken {
		text += " by token"
	}
	return text
}

// meter counts the requests of one host or token.
func (l *SiteLimit) meter() limit.Meter {
	spec := limit.Spec{As: limit.FirstUse, Amount: min(l.Amount, 1<<50), Window: l.Per.Length, Period: l.Per.Calendar} // a meter counts no more
	if spec.Period != "" {
		spec.As = limit.Quota
	}
	m, err := limit.New(spec)
	if err != nil {
		panic(err) // ParseSiteLimit has read it
	}
	return m
}
