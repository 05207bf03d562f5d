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

// ExchangeError tells why a pair could not be exchanged for an access token. It contains
// neither the pair nor text of the server.
type ExchangeError struct {
	Label string // of the token
	Host  string // of the server

	Status   int       // HTTP status; 0: no answer
	Code     string    // error code of RFC 6749; "" if the server sent none of these
	Rejected bool      // the server does not accept the pair; waiting does not help
	TimedOut bool      // the server did not answer in time
	RetryAt  time.Time // when the next exchange is tried
}

func (e *ExchangeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exchanging the credentials of %s at %s: ", e.Label, e.Host)
	switch {
	case e.TimedOut:
		fmt.Fprintf(&b, "no answer within %s", exchangeTimeout)
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

// codes are the error codes of RFC 6749; true: the pair was rejected. Any other text of a
// server may contain the secret and is not shown.
var codes = map[string]bool{
	"invalid_request": false, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "server_error": false, "temporarily_unavailable": false,
	"access_denied": true,
}

// failure makes an ExchangeError of an error. row is the number of failures in a row.
func (x *exchange) failure(now time.Time, label string, err error, row int) *ExchangeError {
	e := &ExchangeError{Label: label, Host: x.host}
	wait := time.Second << min(row-1, 6)
	var response *oauth2.RetrieveError
	switch {
	case errors.As(err, &response):
		e.Status = response.Response.StatusCode
		rejects, known := codes[response.ErrorCode]
		if known {
			e.Code = response.ErrorCode
		}
		e.Rejected = rejects || e.Status == http.StatusUnauthorized
		wait = max(wait, retryAfter(response.Response.Header.Get("Retry-After"), now))
	case errors.Is(err, context.DeadlineExceeded):
		e.TimedOut = true
	case errors.Is(err, errMalformed), strings.HasPrefix(err.Error(), "oauth2: "):
		e.Status = http.StatusOK
	}
	e.RetryAt = now.Add(wait)
	return e
}

// retryAfter reads a Retry-After header: seconds or a date, at most one hour.
func retryAfter(after string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if n, err := strconv.ParseUint(after, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
