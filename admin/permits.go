package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// permits answers what is asked about permits.
type permits struct {
	from Proxy
	log  *logrus.Logger
}

// mostPermits is the largest number of permits that are asked for, or settled, in one call.
const mostPermits = 1000

// ask grants one, or each of a list as far as it can be.
func (p *permits) ask(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) { // a list
		list, err := readList(body)
		if err != nil {
			return nil, err
		}
		return p.askAll(w, r, list), nil
	}
	ask, err := readAsk(body)
	if err != nil {
		return nil, err
	}
	patient(w, ask.Wait)
	decision := p.grant(r.Context(), ask)
	if decision.Granted {
		return decision, nil
	}
	if decision.Retry != nil {
		w.Header().Set("Retry-After", strconv.FormatFloat(max(math.Ceil(*decision.Retry), 1), 'f', 0, 64))
	}
	answer(w, decision.Status, "application/problem+json", decision)
	return nil, nil
}

// askAll asks for all in their order, and each waits by itself.
func (p *permits) askAll(w http.ResponseWriter, r *http.Request, list []json.RawMessage) []decision {
	answers := make([]decision, len(list))
	asks := make([]status.PermitAsk, len(list))
	var longest time.Duration
	for i, text := range list {
		ask, err := readAsk(text)
		if err != nil {
			answers[i] = unfit(http.StatusBadRequest, err.Error())
			continue
		}
		asks[i], longest = ask, max(longest, ask.Wait)
	}
	patient(w, longest)
	var asking sync.WaitGroup
	for i := range asks {
		if answers[i].Status != 0 {
			continue
		}
		queued := make(chan struct{})
		asks[i].Queued = sync.OnceFunc(func() { close(queued) })
		asking.Go(func() {
			defer asks[i].Queued()
			answers[i] = p.grant(r.Context(), asks[i])
		})
		select {
		case <-queued: // so that they go in their order
		case <-r.Context().Done():
		}
	}
	asking.Wait()
	if r.Context().Err() != nil {
		for i := range answers {
			p.giveBack(answers[i])
		}
	}
	return answers
}

// grant asks for one. Whoever is gone by then has sent nothing.
func (p *permits) grant(ctx context.Context, ask status.PermitAsk) (got decision) {
	defer caught(p.log, "ask for a permit", func() { got = unfit(http.StatusInternalServerError, ourFault) })
	g, err := p.from.Permit(ctx, ask)
	refused, isRefused := errors.AsType[*status.Denied](err)
	switch {
	case err == nil && ctx.Err() != nil:
		p.giveBack(grantOf(g))
		return unfit(http.StatusServiceUnavailable, "you have gone")
	case err == nil:
		return grantOf(g)
	case isRefused:
		return denied(refused, time.Now())
	case ctx.Err() != nil:
		return unfit(http.StatusServiceUnavailable, "you have gone")
	}
	return unfit(http.StatusBadRequest, status.ErrorLine(err))
}

// giveBack is for a permit of which nobody will hear.
func (p *permits) giveBack(got decision) {
	if got.Granted {
		_ = p.from.SettlePermit(got.ID, status.PermitEnd{Unsent: true}) // one that has expired counts as sent
	}
}

// patient has an answer written that comes later than the listener writes others.
// Whoever gives up is heard of even so: nothing bounds reading by then.
func patient(w http.ResponseWriter, wait time.Duration) {
	if wait > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout)) // without a deadline there is nothing to move
	}
}

// settle says what became of one.
func (p *permits) settle(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	id, end, err := readEnd(body)
	if err == nil && id != "" && id != r.PathValue("id") {
		err = errors.New("the body has another id than the path")
	}
	if err != nil {
		return nil, err
	}
	return p.settled(r, end)
}

// unsent says that one was not used.
func (p *permits) unsent(_ http.ResponseWriter, r *http.Request) (any, error) {
	return p.settled(r, status.PermitEnd{Unsent: true})
}

// settled settles the permit that the path names.
func (p *permits) settled(r *http.Request, end status.PermitEnd) (any, error) {
	s := p.settleOne(r.PathValue("id"), end)
	if !s.Settled {
		return nil, because(s.Status, s.Detail)
	}
	return s, nil
}

// settlement is the result of settling one permit.
type settlement struct {
	ID      string `json:"id"`
	Settled bool   `json:"settled"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
}

func (p *permits) settleOne(id string, end status.PermitEnd) settlement {
	err, code := p.from.SettlePermit(id, end), http.StatusBadRequest
	if err == nil {
		return settlement{ID: id, Settled: true, Status: http.StatusOK}
	} else if _, missing := errors.AsType[status.Missing](err); missing {
		code = http.StatusNotFound
	}
	return settlement{ID: shorten.To(mostQuoted, id), Status: code, Detail: status.ErrorLine(err)}
}

// settleAll says what became of each of a list.
func (p *permits) settleAll(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	list, err := readList(body)
	if err != nil {
		return nil, err
	}
	answers := make([]settlement, len(list))
	for i, text := range list {
		id, end, err := readEnd(text)
		if err == nil && id == "" {
			err = errors.New("id is missing")
		}
		if err != nil {
			answers[i] = settlement{ID: shorten.To(mostQuoted, id), Status: http.StatusBadRequest, Detail: err.Error()}
			continue
		}
		answers[i] = p.settleOne(id, end)
	}
	return answers, nil
}

// readList takes a list apart.
func readList(body []byte) ([]json.RawMessage, error) {
	var list []json.RawMessage
	switch {
	case json.Unmarshal(body, &list) != nil || list == nil:
		return nil, errors.New("the body is not the JSON list that is expected here")
	case len(list) > mostPermits:
		return nil, fmt.Errorf("the list is longer than %d", mostPermits)
	}
	return list, nil
}

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
