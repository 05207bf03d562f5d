package dispatch

import (
	"context"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/proxy/problem"
)

// Caller is the side that a request comes from: the HTTP connection of a client. The
// dispatcher tells it when the request waits, and asks it for the request's body.
type Caller interface {
	// Prepare reads what is kept of the body, before the request waits.
	Prepare(r *http.Request) error
	// HasBody tells whether the request has a body.
	HasBody() bool
	// BeginWait is called when the request begins to wait, and resume when it is about to
	// be sent. BeginWait is called under a lock of the queue.
	BeginWait()
	EndWait()
	// WaitContext is the context of the request's waits.
	WaitContext(ctx context.Context) context.Context
	// HasLeft tells whether the client has HasLeft while the request was held.
	HasLeft() bool
	// SetSent tells whether the request, which shares another's answer, is on its way.
	SetSent(sent bool)
	// Attempt is the request for its next Attempt, with its body from the beginning.
	Attempt(r *http.Request) *http.Request
	// Whole tells whether an attempt of which nothing was sent leaves the body Whole.
	Whole() bool
	// Replayable tells whether the body could be sent once more.
	Replayable(r *http.Request) bool
	// Release gives up what is kept of the body: there is no other attempt.
	Release()
	// BodyProblem is the answer to a body that could not be read, nil if it could. certain
	// waits a moment for a read that is about to fail.
	BodyProblem(certain bool) *problem.Problem
	// Spared tells whether the upstream wanted no more of the body while the client was
	// there: the request's context may have ended for that.
	Spared() bool
}

// NoCaller is the caller of a request that abide makes itself, without a body.
type NoCaller struct{}

func (NoCaller) Prepare(*http.Request) error                     { return nil }
func (NoCaller) HasBody() bool                                   { return false }
func (NoCaller) BeginWait()                                      {}
func (NoCaller) EndWait()                                        {}
func (NoCaller) WaitContext(ctx context.Context) context.Context { return ctx }
func (NoCaller) HasLeft() bool                                   { return false }
func (NoCaller) SetSent(bool)                                    {}
func (NoCaller) Attempt(r *http.Request) *http.Request           { return r }
func (NoCaller) Whole() bool                                     { return true }
func (NoCaller) Release()                                        {}
func (NoCaller) BodyProblem(bool) *problem.Problem               { return nil }
func (NoCaller) Spared() bool                                    { return false }

func (NoCaller) Replayable(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// HalfCloseGrace is how long the answer to a request in flight may still take
// after its client has shut its sending side. A client that only half-closed
// gets its answer; one that is gone costs this much and no more.
const HalfCloseGrace = 900 * time.Millisecond
