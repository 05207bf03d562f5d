package main

import (
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

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/policy"
)

// Bounds of asking a process that runs. Whether one does shows at once; one that
// does may be busy, and have a long queue to look at.
const (
	liveTimeout = 5 * time.Second
	maxLive     = 4 << 20
	// reloadPatience is for a reload, which may wait for a lookup of secrets.
	reloadPatience = 30 * time.Second
)

// askLive asks the process whose admin listener is at address what a request
// would meet now, until ctx is done. It answers the JSON as it came, too.
func askLive(ctx context.Context, address string, token policy.Secret, query url.Values) (e admin.Explanation, body []byte, err error) {
	body, err = callAPI(ctx, http.MethodGet, address, token, "explain?"+query.Encode(), "explains")
	if err != nil {
		return e, nil, err
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Target == "" {
		return e, nil, notAbide(address, "explains")
	}
	return e, body, nil
}

// callAPI asks the process whose admin listener is at address for a path of its
// API, until ctx is done. An abide that has it "explains", or whatever does is.
// The error of one that answers with a problem is a *problem.
func callAPI(ctx context.Context, method, address string, token policy.Secret, path, does string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if !token.Empty() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	var body []byte
	answer, err := directly.RoundTrip(request)
	if err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxLive))
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the proxy at %s does not answer in time", address)
	case err != nil:
		return nil, noProxy(address)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // what it cannot read is none of ours
	switch {
	case answer.StatusCode == http.StatusOK && kind == "application/json":
		return body, nil
	case kind == "application/problem+json":
		var said struct {
			Detail string
			Faults []admin.Fault
		}
		if err := json.Unmarshal(body, &said); err == nil {
			return nil, &problem{answer.StatusCode, fmt.Sprintf("the proxy at %s answers %s: %s", address, answer.Status, oneLine(said.Detail)), oneLine(said.Detail), said.Faults}
		}
	}
	return nil, notAbide(address, does)
}

// noProxy is the address where none is running.
type noProxy string

func (at noProxy) Error() string { return "no proxy is running at " + string(at) }

// problem is what an abide has answered that does not do what it was asked for. Faults
// are those of a configuration, where that is why.
type problem struct {
	status int
	text   string // with the address and the status
	detail string // why, without them
	faults []admin.Fault
}

func (p *problem) Error() string { return p.text }

func notAbide(address, does string) error {
	return fmt.Errorf("what answers at %s is no abide that %s", address, does)
}

// oneLine keeps what another process says from steering the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
