// Package permits lets requests be sent that do not go through abide: the caller waits for
// a permit as a request would, sends the request itself, and settles the permit.
//
//	p := permits.New(dispatcher, metrics)
//	grant, err := p.Permit(ctx, status.PermitAsk{URL: "https://api.example/items"})
//	err = p.SettlePermit(grant.ID, status.PermitEnd{Status: 200})
package permits

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/status"
)

const (
	// life is the time after which a permit that is not settled counts as sent.
	life = time.Minute
	// most permits are out at once.
	most = 100_000
)

var (
	// errNone is the error for a permit that was settled, has expired, or never was.
	errNone error = status.Missing("there is no such permit: it was settled before, has expired, or never was")
	// errAsk is the error for a request that abide would not send.
	errAsk = errors.New("the URL has to begin with http:// or https:// and name a host, and the method be one that abide sends")
)

// Permits has the permits that are not settled.
type Permits struct {
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Metrics

	mu      sync.Mutex
	out     map[string]*permit // :: ID →
	shut    bool
	settled sync.WaitGroup // by SettlePermit, which has not returned yet
}

// permit is a permit that is not settled.
type permit struct {
	request *dispatch.Request
	expiry  *time.Timer
}

// New returns Permits of which none is out.
func New(d *dispatch.Dispatcher, m *metrics.Metrics) *Permits {
	return &Permits{dispatcher: d, metrics: m, out: map[string]*permit{}}
}

// Permit waits until a request may be sent. The permit must be settled; a permit that
// is not counts as sent once it has expired.
func (p *Permits) Permit(ctx context.Context, a status.PermitAsk) (status.Grant, error) {
	if a.Queued != nil {
		a.Queued = sync.OnceFunc(a.Queued)
		defer a.Queued()
	}
	x, err := p.request(a)
	if err != nil {
		return status.Grant{}, err
	}
	began := time.Now()
	if problem := p.dispatcher.Admit(ctx, x, a.Bytes); problem != nil {
		if ctx.Err() != nil {
			return status.Grant{}, ctx.Err()
		}
		p.metrics.Refused(problem.Reason)
		return status.Grant{}, denied(problem, time.Now())
	}
	id := make([]byte, 16)
	rand.Read(id)
	of := x.Report()
	grant := status.Grant{ID: hex.EncodeToString(id), Site: of.Site, Token: of.Token, Waited: time.Since(began), Expires: time.Now().Add(life)}
	if problem := p.add(grant.ID, x); problem != nil {
		p.dispatcher.Complete(x, status.PermitEnd{Unsent: true})
		return status.Grant{}, denied(problem, time.Now())
	}
	return grant, nil
}

// add stores a permit until it is settled or expires. It tells why there is no room.
func (p *Permits) add(id string, x *dispatch.Request) *problem.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.out) >= most:
		return &problem.Permits
	case p.shut:
		return &problem.Draining
	}
	p.out[id] = &permit{x, time.AfterFunc(life, func() { _ = p.SettlePermit(id, status.PermitEnd{}) })} // an error says that it was settled already
	return nil
}

// request returns the request that a permit is asked for.
func (p *Permits) request(a status.PermitAsk) (*dispatch.Request, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, errAsk
	}
	a.Method = cmp.Or(a.Method, http.MethodGet)
	if dispatch.MethodRefusal(a.Method) != nil || a.Method == http.MethodConnect {
		return nil, errAsk
	}
	x, err := p.dispatcher.NewRequest(&http.Request{Method: a.Method, URL: u, Header: http.Header{}, Body: http.NoBody})
	if err != nil {
		return nil, errAsk
	}
	x.Options = dispatch.RequestOptions{Cost: a.Cost, Client: a.Client, Urgency: a.Priority + 1, Wait: a.Wait, Limited: true}
	x.Client = x.Snapshot.Policy().Client(a.Client)
	x.Queued = a.Queued
	return x, nil
}

// SettlePermit reports the end of a request. The dispatcher learns from it as from an answer to a
// request of its own.
func (p *Permits) SettlePermit(id string, e status.PermitEnd) error {
	p.mu.Lock()
	permit := p.out[id]
	delete(p.out, id)
	if permit != nil {
		p.settled.Add(1)
	}
	p.mu.Unlock()
	if permit == nil {
		return errNone
	}
	defer p.settled.Done()
	permit.expiry.Stop()
	p.dispatcher.Complete(permit.request, e)
	return nil
}

// SettleAll settles all that are out, as if they had been sent, and gives no more.
func (p *Permits) SettleAll() {
	p.mu.Lock()
	p.shut = true
	ids := slices.Collect(maps.Keys(p.out))
	p.mu.Unlock()
	for _, id := range ids {
		_ = p.SettlePermit(id, status.PermitEnd{}) // an error says that it was settled already
	}
	p.settled.Wait()
}

// OpenPermits counts the permits that are out.
func (p *Permits) OpenPermits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.out)
}

// denied returns a problem as the answer to a permit's caller.
func denied(a *problem.Problem, now time.Time) *status.Denied {
	d := &status.Denied{Reason: a.Reason, Title: a.Title, Detail: a.Detail, Limit: a.Limit, Status: a.Status, RetryAt: a.At}
	if d.RetryAt.IsZero() && a.Retry > 0 {
		d.RetryAt = now.Add(a.Retry)
	}
	return d
}
