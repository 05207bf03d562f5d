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
	// Prepare buffers the part of the body that is needed to repeat it, before the request waits.
	Prepare(r *http.Request) error
	// HasBody reports whether the request has a body.
	HasBody() bool
	// BeginWait is called, under a lock of the queue, when the request begins to wait, and
	// EndWait when it is about to be sent.
	BeginWait()
	EndWait()
	// WaitContext returns the context of the request's waits.
	WaitContext(ctx context.Context) context.Context
	// HasLeft reports whether the client closed its connection while the request waited.
	HasLeft() bool
	// SetSent is called for a request that shares the answer to another: sent is true if that
	// one is on its way.
	SetSent(sent bool)
	// Attempt returns the request of the next attempt, with its body from the beginning.
	Attempt(r *http.Request) *http.Request
	// Replayable reports whether the body could be sent once more.
	Replayable(r *http.Request) bool
	// Release gives up what is buffered of the body: there is no other attempt.
	Release()
	// BodyProblem answers a body that could not be read, nil if it could. certain
	// waits a moment for a read that is about to fail.
	BodyProblem(certain bool) *problem.Problem
	// Spared reports whether the upstream wanted no more of the body while the client was
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
func (NoCaller) Release()                                        {}
func (NoCaller) BodyProblem(bool) *problem.Problem               { return nil }
func (NoCaller) Spared() bool                                    { return false }

func (NoCaller) Replayable(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// HalfCloseGrace bounds the time that the answer to a request in flight may still take after
// its client has closed its sending side. A client that only half-closed gets its answer.
const HalfCloseGrace = 900 * time.Millisecond
