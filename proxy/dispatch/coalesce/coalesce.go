// Package coalesce lets identical requests that are under way at the same time share one
// answer, if its body is not longer than 1 MiB.
//
//	m, leads := group.Join(ctx, request, client)
//	if leads {
//		go func(c *Call) { // which is a context, and ends with its last member
//			defer c.End()
//			resp := send(c, request)
//			c.Publish(resp, resp.Body, resp.ContentLength, false)
//			c.Fill()
//		}(m.Call)
//	}
//	if m.Wait(ctx, patience) == nil {
//		defer m.Close()
//		answer(m.Value(), m) // m reads the body
//	}
//
// The first member has the answer as it comes, and the others once it is whole. Of a longer
// answer the others are told to go alone.
package coalesce

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/replay"
)

const (
	// maxBody bounds the bytes of a body that is shared.
	maxBody = 1 << 20
	// firstRoom is the room for a body before any of it has come.
	firstRoom = 16 << 10
	// freshFor bounds the age of an answer that can still be joined: an older one is no answer
	// to what is asked now.
	freshFor = 5 * time.Second
)

// Group has the calls of requests that may be shared. Requests with equal K are the same, and V
// describes an answer without its body. The zero value is ready.
type Group[K comparable, V any] struct {
	mu   sync.Mutex
	open map[K][]*Call[K, V]
}

// Members counts the members of the calls that have not ended.
func (g *Group[K, V]) Members() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, calls := range g.open {
		for _, c := range calls {
			c.mu.Lock()
			n += len(c.members)
			c.mu.Unlock()
		}
	}
	return n
}

// Join adds a member to an open call, or else begins a call with it. ctx is that of a new
// call; its caller has to send the request then, and to call Publish and End.
func (g *Group[K, V]) Join(ctx context.Context, request K, client string) (m *Member[K, V], leads bool) {
	m = &Member[K, V]{Came: time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m.Call = range g.open[request] {
		if m.add(m, client) {
			return m, false
		}
	}
	c := &Call[K, V]{group: g, request: request, client: client, members: []*Member[K, V]{m}}
	c.Context, c.cancel = context.WithCancel(ctx)
	if g.open == nil {
		g.open = map[K][]*Call[K, V]{}
	}
	g.open[request] = append(g.open[request], c)
	m.Call, m.Leads = c, true
	return m, true
}

// Call is a request that is sent once for all its members. It is the context of that
// request, which ends when the last member has left.
type Call[K comparable, V any] struct {
	context.Context
	cancel  context.CancelFunc
	group   *Group[K, V]
	request K
	client  string // that began it, and whose turn it waits for
	body    replay.Body

	mu      sync.Mutex
	members []*Member[K, V] // the first has the answer as it comes
	sent    bool            // on its way; otherwise it waits for its turn
	began   time.Time       // when the answer began; zero before
	alone   bool            // the answer is for the first alone
	news    chan struct{}   // closed when something of this has changed; nil while nobody waits
	value   V
}

// add adds a member, unless it is too late for that. A call that waits for its turn is open to the
// client that began it and to no other: a client that has used up its share would hold others up.
func (c *Call[K, V]) add(m *Member[K, V], client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := !c.began.IsZero() && m.Came.Sub(c.began) > freshFor
	if old || c.alone || c.body.Ended() || len(c.members) == 0 || !c.sent && client != c.client {
		return false
	}
	c.members = append(c.members, m)
	return true
}

func (c *Call[K, V]) remove(m *Member[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(item *Member[K, V]) bool { return item == m })
	if len(c.members) == 0 {
		c.cancel()
	}
	c.tell() // another is the first
}

// tell wakes the members that wait. c is locked.
func (c *Call[K, V]) tell() {
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// listen returns a channel that is closed when something changes. c is locked.
func (c *Call[K, V]) listen() <-chan struct{} {
	if c.news == nil {
		c.news = make(chan struct{})
	}
	return c.news
}

// Sent says whether the request is on its way, or waits for its turn.
func (c *Call[K, V]) Sent(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = yes
	c.tell()
}

// Publish tells the members of an answer with a body of so many bytes; a negative length is
// unknown. Fill must follow. A personal answer is for the first alone.
func (c *Call[K, V]) Publish(v V, body io.Reader, length int64, personal bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body.Begin(io.NopCloser(body), nil, room{})
	c.value, c.began = v, time.Now()
	if personal || length > maxBody {
		c.leaveToFirst()
	}
	c.tell()
}

// room lets bodies be kept that are shared, and of longer ones one byte more.
type room struct{}

func (room) Take(have int) int { return min(max(have, firstRoom), maxBody+1-have) }

// Fail publishes v, without a body, in place of the answer that was to come. An answer that
// has begun is broken off where reading it has failed.
func (c *Call[K, V]) Fail(v V) {
	c.mu.Lock()
	begun := !c.began.IsZero()
	c.mu.Unlock()
	if !begun {
		c.Publish(v, http.NoBody, 0, false)
	}
	c.Fill()
}

// Fill reads the body for the members. It returns when nothing of the body is needed any more.
func (c *Call[K, V]) Fill() {
	c.mu.Lock()
	alone := c.alone
	c.mu.Unlock()
	if !alone {
		_ = c.body.ReadAhead() // its readers get the error
	}
	c.mu.Lock()
	ended := c.body.Ended()
	if !ended {
		c.leaveToFirst()
		c.body.Once(-1)
	}
	c.tell()
	c.mu.Unlock()
	if !ended {
		<-c.Done() // the first reads the rest
	}
}

// leaveToFirst takes the members out that are not the first. c is locked.
func (c *Call[K, V]) leaveToFirst() {
	c.alone = true
	c.members = c.members[:min(len(c.members), 1)]
}

// End ends the call. Its members can still read what has come.
func (c *Call[K, V]) End() {
	c.cancel()
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := slices.DeleteFunc(g.open[c.request], func(call *Call[K, V]) bool { return call == c })
	if g.open[c.request] = calls; len(calls) == 0 {
		delete(g.open, c.request)
	}
}

// ErrAlone tells that a request has to be sent by itself.
var ErrAlone = errors.New("the answer is for another request alone")

// Member is a request of a call, and the body that its client reads. Close it when Wait was
// without error.
type Member[K comparable, V any] struct {
	*Call[K, V]
	Came   time.Time // when it joined
	Leads  bool      // the call began with it
	reader *replay.Reader
	stop   func() bool // stops the client from closing the reader when it leaves
}

// Value returns the value that was published. It is there when Wait was without error.
func (m *Member[K, V]) Value() V { return m.value }

// Wait waits until the member has the answer of the call. The error is ErrAlone, or that of
// ctx.
func (m *Member[K, V]) Wait(ctx context.Context, p Patience) error {
	grace := time.Now().Add(p.Grace)
	for {
		m.mu.Lock()
		i, sent, began, news := slices.Index(m.members, m), m.sent, m.began, m.listen()
		m.mu.Unlock()
		now, next := time.Now(), p.end(sent, began, m.Leads)
		switch {
		case !began.IsZero() && (i == 0 || i > 0 && m.body.Ended()):
			p.Held(false)
			reader, _ := m.body.Reader()
			m.reader, m.stop = reader, context.AfterFunc(ctx, func() { reader.Close() })
			return nil
		case i < 0, !next.IsZero() && !now.Before(next):
			m.Close()
			return ErrAlone
		case sent || !now.Before(grace):
			p.Held(!sent)
		case next.IsZero() || grace.Before(next):
			next = grace
		}
		if err := wait(ctx, news, next); err != nil {
			m.Close()
			return err
		}
	}
}

// Read reads the body. Bytes that came before an error are read before it.
func (m *Member[K, V]) Read(p []byte) (n int, err error) {
	if n, err = m.reader.Read(p); err != nil {
		m.Close()
	}
	return n, err
}

// Close takes the member out of the call.
func (m *Member[K, V]) Close() error {
	if m.stop != nil {
		m.stop()
	}
	m.remove(m)
	return nil
}

// Patience bounds the waits of a member.
type Patience struct {
	Turn  time.Time     // until when it waits for the turn of a call that another member began
	Whole time.Duration // how long it waits for the end of an answer that has begun
	// Held is called when the call is on its way, and, if that takes longer than Grace,
	// when it waits for its turn.
	Held  func(yes bool)
	Grace time.Duration
}

// end returns the end of the wait of a member; zero is never.
func (p *Patience) end(sent bool, began time.Time, leads bool) time.Time {
	switch {
	case leads || sent && began.IsZero():
		return time.Time{}
	case !began.IsZero():
		return began.Add(p.Whole)
	}
	return p.Turn
}

// wait waits for news, or until a time; zero is never.
func wait(ctx context.Context, news <-chan struct{}, until time.Time) error {
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case <-news:
	case <-late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
