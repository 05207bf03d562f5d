package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

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
func (p *permits) ask(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if isList(body) {
		if list, ok := readList(w, body); ok {
			p.askAll(w, r, list)
		}
		return
	}
	ask, err := readAsk(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	patient(w, ask.Wait)
	decision := p.grant(r.Context(), ask)
	if decision.Granted {
		answerJSON(w, decision)
		return
	}
	if decision.Retry != nil {
		w.Header().Set("Retry-After", strconv.FormatFloat(max(math.Ceil(*decision.Retry), 1), 'f', 0, 64))
	}
	answer(w, decision.Status, "application/problem+json", decision)
}

// askAll asks for all in their order, and each waits by itself.
func (p *permits) askAll(w http.ResponseWriter, r *http.Request, list []json.RawMessage) {
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
	answerJSON(w, answers)
}

// grant asks for one. Whoever is gone by then has sent nothing.
func (p *permits) grant(ctx context.Context, ask status.PermitAsk) (got decision) {
	defer func() {
		if v := recover(); v != nil {
			p.log.WithField("stack", string(debug.Stack())).Error("the admin listener failed to ask for a permit")
			got = unfit(http.StatusInternalServerError, "a fault of abide's, which its log tells about")
		}
	}()
	g, err := p.from.Permit(ctx, ask)
	var refused *status.Denied
	switch {
	case err == nil && ctx.Err() != nil:
		p.giveBack(grantOf(g))
		return unfit(http.StatusServiceUnavailable, "you have gone")
	case err == nil:
		return grantOf(g)
	case errors.As(err, &refused):
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
func (p *permits) settle(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	id, end, err := readEnd(body)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	case id != "" && id != r.PathValue("id"):
		refuse(w, http.StatusBadRequest, "the body has another id than the path")
	default:
		p.settled(w, r.PathValue("id"), end)
	}
}

// unsent says that one was not used.
func (p *permits) unsent(w http.ResponseWriter, r *http.Request) {
	if readJSON(w, r, &struct{}{}) {
		p.settled(w, r.PathValue("id"), status.PermitEnd{Unsent: true})
	}
}

func (p *permits) settled(w http.ResponseWriter, id string, end status.PermitEnd) {
	if s := p.settleOne(id, end); s.Settled {
		answerJSON(w, s)
	} else {
		refuse(w, s.Status, s.Detail)
	}
}

// settlement is the result of settling one permit.
type settlement struct {
	ID      string `json:"id"`
	Settled bool   `json:"settled"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
}

func (p *permits) settleOne(id string, end status.PermitEnd) settlement {
	err := p.from.SettlePermit(id, end)
	var missing status.Missing
	switch {
	case err == nil:
		return settlement{ID: id, Settled: true, Status: http.StatusOK}
	case errors.As(err, &missing):
		return settlement{ID: shortened(id), Status: http.StatusNotFound, Detail: status.ErrorLine(err)}
	}
	return settlement{ID: shortened(id), Status: http.StatusBadRequest, Detail: status.ErrorLine(err)}
}

// settleAll says what became of each of a list.
func (p *permits) settleAll(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	list, ok := readList(w, body)
	if !ok {
		return
	}
	answers := make([]settlement, len(list))
	for i, text := range list {
		id, end, err := readEnd(text)
		if err == nil && id == "" {
			err = errors.New("id is missing")
		}
		if err != nil {
			answers[i] = settlement{ID: shortened(id), Status: http.StatusBadRequest, Detail: err.Error()}
			continue
		}
		answers[i] = p.settleOne(id, end)
	}
	answerJSON(w, answers)
}

// isList tells whether a body is a list, rather than one thing.
func isList(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// readList takes a list apart. It answers the request itself when it cannot.
func readList(w http.ResponseWriter, body []byte) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) != nil || list == nil {
		refuse(w, http.StatusBadRequest, "the body is not the JSON list that is expected here")
		return nil, false
	}
	if len(list) > mostPermits {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("the list is longer than %d", mostPermits))
		return nil, false
	}
	return list, true
}
