package status

import (
	"time"
)

// Missing is the error for something that does not exist.
type Missing string

func (m Missing) Error() string { return string(m) }

// NotKept is the error of a change of the operator that applies in this process but could not be saved.
type NotKept struct{ Err error }

func (n NotKept) Error() string {
	return "it holds in this process, and is not kept yet: " + n.Err.Error()
}

func (n NotKept) Unwrap() error { return n.Err }

// Kept returns the error of a change that was saved with err.
func Kept(err error) error {
	if err != nil {
		return NotKept{err}
	}
	return nil
}

// PermitAsk describes a request of a client that cannot use a proxy.
type PermitAsk struct {
	URL, Method, Client string
	Bytes, Cost         int64 // expected; 0: as usual
	Wait                time.Duration
	Priority            int // 0 is the most urgent, 7 the least; -1: as usual

	// Queued is called once: when the request's place in the queue is certain, or none is
	// needed.
	Queued func()
}

// Grant is the permission to send that request, once, until it expires.
type Grant struct {
	ID, Site, Token string // Token is the label of the one to send it with
	Waited          time.Duration
	Expires         time.Time
}

// Denied tells why it may not be sent now. A zero RetryAt: unknown.
type Denied struct {
	Reason, Title, Detail, Limit string
	Status                       int
	RetryAt                      time.Time
}

func (d *Denied) Error() string { return d.Title }

// PermitEnd is the result of a permitted request. Status 0: there was no answer.
type PermitEnd struct {
	Bytes   int64
	Status  int
	Headers [][2]string
	Unsent  bool // it was not sent after all
}
