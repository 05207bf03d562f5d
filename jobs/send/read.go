package send

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds the body of an answer.
const maxBody = 64 << 20

// attemptsHeader says how often abide has sent the request.
const attemptsHeader = "Abide-Attempts"

// Answer is the answer of a site, with its whole body.
type Answer struct {
	Status   int
	Header   http.Header
	Body     []byte
	URL      *url.URL // after redirects
	Attempts int      // how often the request was sent
}

// Failure is why a request has no answer that can be used.
type Failure struct {
	Text      string
	Status    int       // of the answer; 0: there was none
	Permanent bool      // the same request would fail again
	Held      bool      // abide did not send the request: this says nothing about the request
	After     time.Time // when the request may be sent again; zero: not said
	Attempts  int       // how often the request was sent
}

func (f *Failure) Error() string { return f.Text }

// Read reads what Send returned, and closes it. The error is a *Failure, or that of ctx where
// the request was canceled.
func Read(resp *http.Response, err error, now time.Time) (*Answer, error) {
	switch {
	case errors.Is(err, context.Canceled):
		return nil, context.Canceled
	case err != nil:
		return nil, &Failure{Text: err.Error()}
	}
	defer resp.Body.Close()
	if f := failureOf(resp, now); f != nil {
		return nil, f
	}
	body, err := bodyOf(resp)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, context.Canceled
	case errors.Is(err, errTooLong):
		return nil, &Failure{Text: err.Error(), Permanent: true}
	case err != nil:
		return nil, &Failure{Text: "the body of the answer broke off: " + err.Error(), Attempts: attempts(resp)}
	}
	return &Answer{resp.StatusCode, resp.Header, body, resp.Request.URL, attempts(resp)}, nil
}

var errTooLong = fmt.Errorf("the answer has more than %d MiB; ask for smaller pages", maxBody>>20)

// bodyOf is the decoded body.
func bodyOf(resp *http.Response) ([]byte, error) {
	var from io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") && resp.ContentLength != 0 {
		unzipped, err := gzip.NewReader(from)
		if err != nil {
			return nil, err
		}
		from = unzipped
	}
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errTooLong
	}
	return body, err
}

// failureOf is why an answer cannot be used; nil if it can.
func failureOf(resp *http.Response, now time.Time) *Failure {
	status := resp.StatusCode
	if status >= 200 && status < 300 || status == http.StatusNotModified {
		return nil
	}
	f := &Failure{Status: status, After: retryAfter(resp.Header, now), Attempts: attempts(resp)}
	direct := strings.HasPrefix(resp.Header.Get("Proxy-Status"), "abide")
	switch {
	case direct:
		f.Text = "abide did not send the request: " + ownReason(resp)
		f.Held = (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && !f.After.IsZero()
		f.Permanent = !f.Held && status != http.StatusBadGateway && status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests
		if status == http.StatusBadGateway || status == http.StatusGatewayTimeout {
			f.Text = ownReason(resp)
		}
	case status < 400:
		f.Text, f.Permanent = fmt.Sprintf("the site answered %s and leads to another origin or in a circle, to %s; write the URL that it leads to", statusText(status), leadsTo(resp)), true
	default:
		f.Text = "the site answered " + statusText(status)
		f.Permanent = status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests ||
			status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
	}
	return f
}

// leadsTo is the place of a redirect, without a query, which may have secrets.
func leadsTo(resp *http.Response) string {
	at, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || at.String() == "" {
		return "no place"
	}
	return at.Scheme + "://" + at.Host + at.EscapedPath()
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// ownReason is the reason of a refusal of abide.
func ownReason(resp *http.Response) string {
	_, reason, _ := strings.Cut(resp.Header.Get("Proxy-Status"), `details="`)
	reason, _, _ = strings.Cut(reason, `"`)
	reason = cmp.Or(reason, "no reason was given")
	return reason + " (" + statusText(resp.StatusCode) + "); docs/troubleshooting.md explains it"
}

// retryAfter is the time that a Retry-After header names; zero if there is none.
func retryAfter(h http.Header, now time.Time) time.Time {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds >= 0 {
		return now.Add(time.Duration(seconds) * time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return at
	}
	return time.Time{}
}

// attempts returns the number of times that abide has sent the request; 1 if it does not say.
func attempts(resp *http.Response) int {
	if n, err := strconv.Atoi(resp.Header.Get(attemptsHeader)); err == nil && n >= 0 {
		return n
	}
	return 1
}
