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
)

// askLive asks the process whose admin listener is at address what a request
// would meet now, until ctx is done. It answers the JSON as it came, too.
func askLive(ctx context.Context, address string, token policy.Secret, query url.Values) (e admin.Explanation, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/explain?"+query.Encode(), nil)
	if err != nil {
		return e, nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if !token.Empty() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	answer, err := directly.RoundTrip(request)
	if err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxLive))
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return e, nil, fmt.Errorf("the proxy at %s does not answer in time", address)
	case err != nil:
		return e, nil, fmt.Errorf("no proxy is running at %s", address)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // what it cannot read is none of ours
	switch {
	case answer.StatusCode == http.StatusOK && kind == "application/json":
		if err := json.Unmarshal(body, &e); err == nil && e.Target != "" {
			return e, body, nil
		}
	case kind == "application/problem+json":
		var problem struct{ Detail string }
		if err := json.Unmarshal(body, &problem); err == nil {
			return e, nil, fmt.Errorf("the proxy at %s answers %s: %s", address, answer.Status, oneLine(problem.Detail))
		}
	}
	return e, nil, fmt.Errorf("what answers at %s is no abide that explains", address)
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
