package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// ExchangeError is why a pair could not be exchanged for a token. It has nothing of
// the pair, nor of what the server wrote.
type ExchangeError struct {
	Label string // of the token
	Host  string // of the server

	Status   int       // 0 is no answer
	Code     string    // of RFC 6749, "" if the server gave none of these
	Rejected bool      // the pair is not accepted; waiting does not help
	TimedOut bool      // there was no answer in time
	RetryAt  time.Time // when it is tried again
}

func (e *ExchangeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exchanging the credentials of %s at %s: ", e.Label, e.Host)
	switch {
	case e.TimedOut:
		fmt.Fprintf(&b, "no answer within %s", slowest)
	case e.Status == 0:
		b.WriteString("no connection")
	case e.Status < 300 && e.Code == "":
		b.WriteString("the answer has no token")
	default:
		fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	return b.String()
}

var errMalformed = errors.New("the answer has no token that could be sent")

// codes are those of RFC 6749. Whatever else a server writes may be the secret.
var codes = map[string]bool{
	"invalid_request": false, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "server_error": false, "temporarily_unavailable": false,
	"access_denied": true,
}

// failure is what may be told of an error.
func (x *exchange) failure(now time.Time, label string, err error, row int) *ExchangeError {
	e := &ExchangeError{Label: label, Host: x.host}
	wait := time.Second << min(row-1, 6)
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &said):
		e.Status = said.Response.StatusCode
		rejects, known := codes[said.ErrorCode]
		if known {
			e.Code = said.ErrorCode
		}
		e.Rejected = rejects || e.Status == http.StatusUnauthorized
		wait = max(wait, asked(said.Response.Header.Get("Retry-After"), now))
	case errors.Is(err, context.DeadlineExceeded):
		e.TimedOut = true
	case errors.Is(err, errMalformed), strings.HasPrefix(err.Error(), "oauth2: "):
		e.Status = http.StatusOK
	}
	e.RetryAt = now.Add(wait)
	return e
}

// asked is how long a server wants to be left alone, at most an hour.
func asked(after string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if n, err := strconv.ParseUint(after, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
