package coalesce

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrAlone tells that a request has to be sent by itself.
	ErrAlone = errors.New("the answer is for another request alone")

	errLeft = errors.New("the client has left")
)

// Member is a request of a call, and the body that its client reads. Close it when Wait was
// without error.
type Member[K comparable, V any] struct {
	*Call[K, V]
	place
	Leads bool            // the call began with it
	at    int             // bytes of the buffer that were read
	gone  <-chan struct{} // closed when the client has left
}

// Came returns the time when the member joined.
func (m *Member[K, V]) Came() time.Time { return m.came }

// Value returns the value that was published. It is there when Wait was without error.
func (m *Member[K, V]) Value() V { return m.value }

// Wait waits until the member has the answer of the call. The error is ErrAlone, or that of
// ctx.
func (m *Member[K, V]) Wait(ctx context.Context, p Patience) error {
	m.gone = ctx.Done()
	grace := time.Now().Add(p.Grace)
	for {
		now, s := time.Now(), m.look(&m.place)
		next := p.end(s, m.Leads)
		switch {
		case s.has:
			p.Held(false)
			return nil
		case s.alone, !next.IsZero() && !now.Before(next):
			m.Close()
			return ErrAlone
		case s.sent || !now.Before(grace):
			p.Held(!s.sent)
		case next.IsZero() || grace.Before(next):
			next = grace
		}
		if err := wait(ctx, s.news, next); err != nil {
			m.Close()
			return err
		}
	}
}

// Read reads the body. Bytes that came before an error are read before it.
func (m *Member[K, V]) Read(p []byte) (n int, err error) {
	m.mu.Lock()
	for m.at == len(m.buf) && m.end == nil && m.unread == nil {
		news := m.listen()
		m.mu.Unlock()
		select {
		case <-news:
		case <-m.gone:
			return 0, errLeft
		}
		m.mu.Lock()
	}
	unread := m.unread
	switch n = copy(p, m.buf[m.at:]); {
	case n > 0:
		m.at, unread = m.at+n, nil
	case unread == nil:
		err = m.end
	default:
		m.buf, m.at = nil, 0
	}
	m.mu.Unlock()
	if unread != nil {
		n, err = unread.Read(p)
	}
	if err != nil {
		m.Close()
	}
	return n, err
}

// Close takes the member out of the call.
func (m *Member[K, V]) Close() error {
	m.remove(&m.place)
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
func (p *Patience) end(s stage, leads bool) time.Time {
	switch {
	case leads || s.sent && s.began.IsZero():
		return time.Time{}
	case !s.began.IsZero():
		return s.began.Add(p.Whole)
	}
	return p.Turn
}

// wait waits for news, or until a time; zero is never.
func wait(ctx context.Context, news <-chan struct{}, until time.Time) error {
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-news:
	case <-late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
