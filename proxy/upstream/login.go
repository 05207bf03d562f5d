package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Login keeps a wrong user or password of a next hop from being sent with every request, by which
// the account could be locked. Until the next hop has accepted them one request at a time tries,
// and after a refusal there is a pause. It is safe for concurrent use. On a nil *Login all go.
type Login struct {
	// OnRefused is called after each refusal, with the end of the pause, zero if there is none.
	OnRefused func(until time.Time)

	mu       sync.Mutex
	accepted bool          // since the last Reset
	refused  int           // answers 407 in a row
	until    time.Time     // end of the pause
	trial    chan struct{} // closed at the end of the request that tries; nil: none does
	expires  time.Time     // another may try from then on
}

const (
	// loginPause is the pause after the first refusal. It doubles with each further one.
	loginPause    = time.Minute
	maxLoginPause = time.Hour
	// loginTrial is the time after which others go beside a request that the next hop has not
	// refused, because it waits for the site.
	loginTrial = 10 * time.Second
	// loginDoubt is the number of refusals in a row after which a login that was accepted before
	// counts as refused: a site can answer 407, too.
	loginDoubt = 3
)

var errLogin = errors.New("the next hop does not accept the user and password")

// Begin waits until a request may be sent with the login. Its error says until when none is.
func (l *Login) Begin(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for {
		trial, wait, err := l.admit(time.Now())
		if trial == nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-trial:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &Error{Kind: Canceled, Err: ctx.Err()}
		}
		timer.Stop()
	}
}

// admit lets a request go, refuses it by an error, or returns the trial to be waited for.
func (l *Login) admit(now time.Time) (trial chan struct{}, wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case now.Before(l.until):
		return nil, 0, &Error{Kind: HopLogin, Until: l.until, Err: errLogin}
	case l.accepted && l.refused == 0:
		return nil, 0, nil
	case l.trial != nil && now.Before(l.expires):
		return l.trial, l.expires.Sub(now), nil
	}
	l.trial, l.expires = make(chan struct{}), now.Add(loginTrial)
	return nil, 0, nil
}

// End notes the status that the next hop answered, 0 for none. It returns the error of a refusal.
func (l *Login) End(status int) *Error {
	if l == nil {
		if status == http.StatusProxyAuthRequired {
			return &Error{Kind: HopLogin, Err: errLogin}
		}
		return nil
	}
	refused := l.note(status, time.Now())
	if refused != nil && l.OnRefused != nil {
		l.OnRefused(refused.Until)
	}
	return refused
}

func (l *Login) note(status int, now time.Time) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trial != nil {
		close(l.trial)
		l.trial = nil
	}
	switch status {
	case 0:
		return nil
	case http.StatusProxyAuthRequired:
		l.refused++
	default:
		l.accepted, l.refused, l.until = true, 0, time.Time{}
		return nil
	}
	if doubled := l.refused - 1; !l.accepted || l.refused >= loginDoubt {
		l.accepted = false
		l.until = now.Add(min(loginPause<<min(doubled, 10), maxLoginPause))
	}
	return &Error{Kind: HopLogin, Until: l.until, Err: errLogin}
}

// Refused returns the end of the pause after a refusal, zero if there is none.
func (l *Login) Refused() time.Time {
	if l == nil {
		return time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == 0 {
		return time.Time{}
	}
	return l.until
}

// Reset forgets refusals: the operator may have mended the account.
func (l *Login) Reset() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted, l.refused, l.until = false, 0, time.Time{}
	}
}
