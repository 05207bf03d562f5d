package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

const (
	// liveTimeout bounds a request to the admin API: a running process may be busy, or have
	// a long queue to describe.
	liveTimeout = 5 * time.Second
	// maxLive bounds an answer of the admin API, in bytes.
	maxLive = 4 << 20
	// reloadPatience is for a reload, which may wait for a lookup of secrets.
	reloadPatience = 30 * time.Second
)

// askLive asks the process whose admin listener is at address what a request would meet now,
// until ctx is done. It also returns the JSON as it came.
func askLive(ctx context.Context, address string, token policy.Secret, query url.Values) (e status.Explanation, body []byte, err error) {
	body, err = callAPI(ctx, http.MethodGet, address, token, "explain?"+query.Encode(), nil, "explains")
	if err != nil {
		return e, nil, err
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Target == "" {
		return e, nil, notAbide(address, "explains")
	}
	return e, body, nil
}

// callAPI sends a request for a path of the admin API to address, until ctx is done. send is
// its body in JSON; nil: it has none. does describes the endpoint in errors: "explains". A
// problem document is returned as a *problem.
func callAPI(ctx context.Context, method, address string, token policy.Secret, path string, send any, does string) ([]byte, error) {
	var sent io.Reader
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+path, sent)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if send != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if !token.Empty() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	var body []byte
	answer, err := directTransport.RoundTrip(request)
	if err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxLive))
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the proxy at %s does not answer in time", address)
	case err != nil:
		return nil, notRunning(address)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // a Content-Type that cannot be parsed is not abide's
	switch {
	case answer.StatusCode == http.StatusOK && kind == "application/json":
		return body, nil
	case kind == "application/problem+json":
		var said struct {
			Detail string
			Faults []status.Fault
		}
		if err := json.Unmarshal(body, &said); err == nil {
			return nil, &problem{answer.StatusCode, fmt.Sprintf("the proxy at %s answers %s: %s", address, answer.Status, printable(said.Detail)), printable(said.Detail), said.Faults}
		}
	}
	return nil, notAbide(address, does)
}

// notRunning is the error for an address where no abide runs.
type notRunning string

func (at notRunning) Error() string { return "no proxy is running at " + string(at) }

// problem is an error that an abide has returned. faults are those of a configuration that
// was refused.
type problem struct {
	status int
	text   string // with the address and the status
	detail string // the reason alone
	faults []status.Fault
}

func (p *problem) Error() string { return p.text }

func notAbide(address, does string) error {
	return fmt.Errorf("what answers at %s is no abide that %s", address, does)
}

// printable removes control characters from another process's text, so that it cannot
// control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
