package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// Bounds of what may be asked for. No honest request is larger or costs more, and who
// waits for longer asks again.
const (
	mostWait     = 10 * time.Minute
	mostBytes    = 1 << 50
	mostCost     = 1 << 30
	lowPriority  = 7
	anyPriority  = -1
	latestStatus = 599
)

// asked is a PermitAsk as it is written.
type asked struct {
	URL      string          `json:"url"`
	Method   string          `json:"method"`
	Client   string          `json:"client"`
	Bytes    int64           `json:"bytes"`
	Cost     int64           `json:"cost"`
	Wait     json.RawMessage `json:"wait" schema:"wait"`
	Priority *int            `json:"priority"`
}

// readAsk is an ask, or what is wrong with it.
func readAsk(text []byte) (a status.PermitAsk, err error) {
	var in asked
	if err := decodeStrictly(text, &in); err != nil {
		return a, err
	}
	a = status.PermitAsk{URL: in.URL, Method: in.Method, Client: in.Client, Bytes: in.Bytes, Cost: in.Cost, Priority: anyPriority}
	a.Method = cmp.Or(a.Method, http.MethodGet)
	if in.Priority != nil {
		if a.Priority = *in.Priority; a.Priority < 0 || a.Priority > lowPriority {
			return a, fmt.Errorf("priority must be from 0 to %d", lowPriority)
		}
	}
	switch {
	case a.URL == "":
		return a, errors.New("url is missing")
	case len(a.URL) > maxURL || len(a.Method) > maxMethod || len(a.Client) > maxClient:
		return a, errors.New("url, method or client is too long")
	case strings.ContainsFunc(a.Method, notInMethod):
		return a, errors.New("method is none")
	case a.Bytes < 0 || a.Bytes > mostBytes:
		return a, errors.New("bytes must be a number of bytes")
	case a.Cost < 0 || a.Cost > mostCost:
		return a, fmt.Errorf("cost must be from 0 to %d", mostCost)
	}
	a.Wait, err = readWait(in.Wait)
	return a, err
}

// readWait is a time as people write it ("30s"), or seconds.
func readWait(text json.RawMessage) (time.Duration, error) {
	var wait time.Duration
	var seconds float64
	var words string
	switch {
	case len(text) == 0 || string(text) == "null":
		return 0, nil
	case json.Unmarshal(text, &seconds) == nil:
		wait = time.Duration(min(max(seconds, -1), 2*mostWait.Seconds()) * float64(time.Second))
	case json.Unmarshal(text, &words) == nil:
		var err error
		if wait, err = policy.ParseWait(words); err != nil {
			return 0, fmt.Errorf("wait needs a number of seconds, or a time with its unit such as 30s: %w", err)
		}
	default:
		return 0, errors.New("wait needs a number of seconds, or a time with its unit such as 30s")
	}
	if wait < 0 || wait > mostWait {
		return 0, fmt.Errorf("wait must be from 0 to %v", mostWait)
	}
	return wait, nil
}

// ended is a PermitEnd as it is written; ID is for lists alone.
type ended struct {
	ID      string      `json:"id"`
	Bytes   int64       `json:"bytes"`
	Status  int         `json:"status"`
	Headers headerPairs `json:"headers" schema:"headers"`
	Unsent  bool        `json:"unsent"`
}

// readEnd reads the outcome of a request, or returns the fault of the body.
func readEnd(text []byte) (id string, e status.PermitEnd, err error) {
	var in ended
	if len(text) > 0 {
		if err := decodeStrictly(text, &in); err != nil {
			return "", e, err
		}
	}
	switch {
	case in.Bytes < 0 || in.Bytes > mostBytes:
		return in.ID, e, errors.New("bytes must be a number of bytes")
	case in.Status != 0 && (in.Status < http.StatusContinue || in.Status > latestStatus):
		return in.ID, e, errors.New("status must be one of HTTP, or 0 where there was no answer")
	}
	return in.ID, status.PermitEnd{Bytes: in.Bytes, Status: in.Status, Headers: in.Headers, Unsent: in.Unsent}, nil
}

// headerPairs are headers as a list of names and values, or as an object whose values
// are texts or lists of texts.
type headerPairs [][2]string

func (h *headerPairs) UnmarshalJSON(text []byte) error {
	var pairs [][2]string
	if json.Unmarshal(text, &pairs) == nil {
		*h = pairs
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return errHeaders
	}
	for name, value := range object {
		var field string
		var several []string
		switch {
		case json.Unmarshal(value, &field) == nil:
			several = []string{field}
		case json.Unmarshal(value, &several) != nil:
			return errHeaders
		}
		for _, one := range several {
			*h = append(*h, [2]string{name, one})
		}
	}
	return nil
}

var errHeaders = errors.New("headers need to be a list of names and values, or an object")

// decision is the answer to an ask, whether it may be sent or not.
type decision struct {
	ID      string     `json:"id,omitempty"`
	Granted bool       `json:"granted"`
	Site    string     `json:"site,omitempty"`
	Token   string     `json:"token,omitempty"`
	Waited  *float64   `json:"waited,omitempty"` // in seconds
	Expires *time.Time `json:"expires,omitempty"`

	Title  string   `json:"title,omitempty"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Limit  string   `json:"limit,omitempty"`
	Retry  *float64 `json:"retry_after,omitempty"` // in seconds
}

func grantOf(g status.Grant) decision {
	waited, expires := g.Waited.Seconds(), g.Expires.UTC()
	return decision{ID: g.ID, Granted: true, Site: g.Site, Token: g.Token, Waited: &waited, Expires: &expires, Status: http.StatusOK}
}

// denied is the answer where a request may not be sent now.
func denied(d *status.Denied, now time.Time) decision {
	g := decision{Title: d.Title, Status: d.Status, Detail: d.Detail, Reason: d.Reason, Limit: d.Limit}
	if g.Status < http.StatusBadRequest || g.Status > latestStatus {
		g.Status = http.StatusServiceUnavailable
	}
	if !d.RetryAt.IsZero() {
		// Rounded up to milliseconds: who comes back then does not come too early.
		left := math.Ceil(max(d.RetryAt.Sub(now).Seconds(), 0)*1000) / 1000
		g.Retry = &left
	}
	return g
}

// unfit is the answer to what is no ask, or names what is not there.
func unfit(code int, detail string) decision {
	return decision{Title: http.StatusText(code), Status: code, Detail: detail}
}
