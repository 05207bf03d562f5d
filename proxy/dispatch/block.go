package dispatch

import (
	"net/http"
	"net/url"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/routes"
)

// verificationPause is how long a request waits while another verifies whether the site
// blocks.
const verificationPause = time.Second

// verify finds out what an answer 403 means that says nothing more. Where requests have
// succeeded before, one that did is sent again: if the site refuses it, too, the site blocks
// this client, and nothing is sent for a while. The request itself is sent again after that.
func (s *lessons) verify(x *Request, r *http.Request, resp *http.Response, v verdict) verdict {
	known, t := x.subject.Known, &x.progress
	if known == nil || resp == nil || t.plan == nil || !t.plan.Learns {
		return v
	}
	status := resp.StatusCode
	switch {
	case t.verifying && v.refused:
		return v // for another reason
	case t.verifying:
		blocked := status == http.StatusForbidden
		known.Verified(x.answered, blocked)
		if blocked {
			return s.blocked(x)
		}
		return verdict{again: true, reason: "verified"}
	case v.again || v.refused || !x.replayable(r) || x.Caller.HasBody():
		return v
	case status == http.StatusOK && r.Method == http.MethodGet:
		if known.WantsKnown() {
			known.SetKnown(x.Target.HostPort(), r.URL.RequestURI())
		}
		return v
	case status != http.StatusForbidden:
		return v
	}
	page := sites.NewPage(resp.Header.Get("Content-Type"), resp.Header.Get("Server"), resp.ContentLength)
	switch known.Forbidden(x.answered, x.Target.HostPort(), page) {
	case sites.Verify:
		t.verifies = true
		return verdict{again: true, reason: "verified"}
	case sites.Verifying:
		return verdict{again: true, reason: "verified", pause: verificationPause}
	case sites.Blocked:
		return s.blocked(x)
	case sites.Forbidden:
	}
	return v
}

// blocked takes an answer by which the site refuses everything.
func (s *lessons) blocked(x *Request) verdict {
	t := &x.progress
	a := sites.Answer{
		Lesson: &learn.Lesson{Throttled: true, Block: true, Scope: learn.Site}, At: x.answered, Class: x.subject.Class,
		Sent: t.permit.Granted(), Budget: x.budget(), Backend: x.backend() != nil, Reserve: t.plan.Reserve(), Failed: true,
	}
	b := x.subject.Known.Blame(&a, &routes.Learned{}, x.refused(), t.permit)
	t.learned.at, t.learned.word, t.refusedAt, t.odd = b.At, b.Word, x.answered, b.Odd
	if b.Changed {
		s.gate.Replan(x.site, x.subject.Known.Version())
	}
	return verdict{refused: true, again: true, reason: "refused", until: b.Until, why: "the site refuses everything"}
}

// beginVerification makes the attempt one that verifies, if the site may block.
func beginVerification(x *Request) {
	t := &x.progress
	t.verifying = false
	if x.subject.Known == nil || x.Caller.HasBody() || !t.verifies && !x.subject.Known.Blocks() {
		return
	}
	t.verifying = x.subject.Known.Known(x.Target.HostPort()) != ""
	t.verifies = false
}

// verification is the attempt in place of which a request is sent that succeeded before.
func verification(x *Request, r *http.Request) *http.Request {
	if !x.progress.verifying {
		return r
	}
	u, err := url.ParseRequestURI(x.subject.Known.Known(x.Target.HostPort()))
	if err != nil {
		return r
	}
	request := r.Clone(r.Context())
	request.Method, request.URL.Path, request.URL.RawPath, request.URL.RawQuery = http.MethodGet, u.Path, u.RawPath, u.RawQuery
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"} {
		request.Header.Del(name)
	}
	return request
}
