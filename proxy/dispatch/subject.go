package dispatch

import (
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/tokens"
)

// findSubject finds what the limits of a request depend on: the class of its route, and the
// tokens that it may be sent with.
func (s *admission) findSubject(x *Request) {
	p := x.progress.plan
	x.subject.Class, x.subject.Tokens, x.subject.Documented = nil, nil, nil
	x.subject.Leads = x.Client != crawler && !x.explained && !x.sentByCaller
	if p == nil {
		return
	}
	if p.Learns && x.subject.Known == nil {
		if x.explained {
			x.subject.Known = s.kept.learned.Recall(x.site)
		} else {
			x.subject.Known = s.kept.learned.Open(x.site)
		}
	}
	if p.Learns && x.subject.Known != nil {
		host := ""
		if x.grouped() {
			host = x.Target.Host
		}
		said := learn.About(learn.Request{Method: x.subject.Method, Host: x.Target.Host, Path: x.subject.Path, Dialect: p.Dialect})
		x.subject.Documented = said.Limits
		x.subject.Class, x.seen = x.subject.Known.Class(x.subject.Method, host, x.subject.Path, said.EntitySegment)
	}
	if p.Pool != nil && x.Client != crawler { // robots.txt needs no token
		x.subject.Tokens = p.Pool.Set()
	}
}

// token is the token of the request's permit; nil: it is sent without one.
func (x *Request) token() *tokens.Token {
	t := &x.progress
	if x.subject.Tokens == nil || t.permit == nil {
		return nil
	}
	if usable, i := x.subject.Tokens.Tokens(), t.permit.Choice(); i < len(usable) {
		return usable[i]
	}
	return nil
}

// budget names whose limits the request takes from: those of its token, of its backend or
// of the client's own credential. "" is none of these.
func (x *Request) budget() string {
	if t := x.token(); t != nil {
		return t.Budget()
	}
	if b := x.backend(); b != nil {
		return b.Name
	}
	if x.subject.Tokens == nil {
		return x.subject.Credential
	}
	return ""
}
