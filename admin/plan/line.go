package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// line is a line of the access log, with what a plan needs of it.
type line struct {
	Message  string    `json:"msg"`
	Time     time.Time `json:"time"` // of the end
	Client   string    `json:"client"`
	Priority *int      `json:"priority"`
	Method   string    `json:"method"`
	URL      string    `json:"url"`    // without the query
	Target   string    `json:"target"` // in place of url: scheme, host and port
	Status   int       `json:"status"`
	Took     float64   `json:"ms"`   // from begin to end
	Wait     float64   `json:"wait"` // seconds of it that abide held the request
	Attempts *int      `json:"attempts"`
	Received int64     `json:"received"`
	Sent     int64     `json:"sent"`
}

// longestTook is the longest time that a request of a log can have taken.
const longestTook = 30 * 24 * time.Hour

// errOtherLine is for a line that is about something else than a request.
var errOtherLine = errors.New("is not about a request")

// readLine reads a line of the access log.
func readLine(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("is not JSON with the fields of the access log: %w", err)
	}
	l.URL = cmp.Or(l.URL, l.Target)
	switch {
	case l.URL == "" && l.Message != "" && l.Message != "request":
		return l, errOtherLine
	case l.Time.IsZero():
		return l, errors.New("has no time")
	case l.URL == "":
		return l, errors.New("has neither url nor target")
	case l.Method == "":
		return l, errors.New("has no method")
	case !(l.Took >= 0 && l.Took <= float64(longestTook.Milliseconds())):
		return l, fmt.Errorf("has ms: %v, which is no time that a request can take", l.Took)
	case !(l.Wait >= 0 && l.Wait <= longestTook.Seconds()):
		return l, fmt.Errorf("has wait: %v, which is no time that a request can wait", l.Wait)
	case l.Priority != nil && (*l.Priority < 0 || *l.Priority > 7):
		return l, fmt.Errorf("has priority: %d, which is not 0 to 7", *l.Priority)
	case l.Received < 0 || l.Sent < 0 || l.Received > math.MaxInt64/2 || l.Sent > math.MaxInt64/2:
		return l, errors.New("has a number of bytes below 0")
	}
	return l, nil
}

// unsent tells whether nothing of the line went to a site, or not by requests that abide
// sees.
func (l *line) unsent() bool {
	return l.Method == http.MethodConnect || l.Attempts != nil && *l.Attempts == 0
}

// took returns the time from begin to end of the request, to the nanosecond.
func (l *line) took() time.Duration { return time.Duration(l.Took * float64(time.Millisecond)) }

// latency returns the time that the site took for one attempt.
func (l *line) latency() time.Duration {
	attempts := 1
	if l.Attempts != nil {
		attempts = max(*l.Attempts, 1)
	}
	return max(l.took()-time.Duration(l.Wait*float64(time.Second)), 0) / time.Duration(attempts)
}

// place returns the target and URL of the request.
func (l *line) place() (*place, error) {
	u, err := url.Parse(l.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("has a url that is none") // the error repeats it
	}
	t, err := policy.ParseTarget(strings.ToLower(u.Scheme), u.Host)
	if err != nil {
		return nil, fmt.Errorf("has a url that is none: %w", err)
	}
	path := cmp.Or(u.EscapedPath(), "/")
	return newPlace(t, path), nil
}
