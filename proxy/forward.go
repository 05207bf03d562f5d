package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

// serveOuter takes what a client says on the proxy's own port.
func (s *Server) serveOuter(w http.ResponseWriter, r *http.Request) {
	if conn := connOf(r); conn != nil {
		conn.serving.Store(true)
	}
	st := s.state.Load()
	refuse := func(a *answer) { s.refuse(w, r, a) }
	if r.ProtoMajor != 1 || r.ProtoMinor > 1 {
		refuse(&answerVersion)
		return
	}
	who, no := s.admit(st.policy, r)
	if no != nil {
		refuse(no)
		return
	}
	if r.Method == http.MethodConnect && !expectsOnly100(r.Header["Expect"]) {
		closeAfter(w, r) // what follows may be meant for the tunnel
		refuse(&answerExpectation)
		return
	}
	if r.Method == http.MethodConnect {
		s.activity.connects.Add(1)
		s.connect(w, r, st, who)
		return
	}
	if r.URL.Host == "" && r.URL.Scheme == "" {
		if r.Method == http.MethodOptions && r.RequestURI == "*" {
			w.Header().Set("Allow", allowedMethods+", CONNECT")
			w.Header().Set("Content-Length", "0")
			return
		}
		refuse(&answerNotAProxyRequest)
		return
	}
	switch r.URL.Scheme {
	case "http", "https":
	default:
		refuse(&answerScheme)
		return
	}
	target, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err != nil {
		refuse(&answerBadTarget)
		return
	}
	s.forward(w, r, &exchange{state: st, target: target, client: who, conn: connOf(r)}, "")
}

// serveInner takes what a client says inside a CONNECT that we opened. The
// connection's target is the request's target; a Host that says otherwise is
// refused, for policy and token go by the target.
func (s *Server) serveInner(w http.ResponseWriter, r *http.Request) {
	conn := connOf(r)
	if conn == nil || conn.target == nil {
		s.refuse(w, r, &answerBug)
		return
	}
	conn.serving.Store(true)
	if r.Method == http.MethodConnect {
		// What follows may be meant for the tunnel that there is not, and must not be
		// taken for a request.
		closeAfter(w, r)
		s.refuse(w, r, &answerMethod)
		return
	}
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		s.refuse(w, r, &answerVersion)
		return
	}
	if r.URL.User != nil {
		s.refuse(w, r, &answerUserinfo)
		return
	}
	target := *conn.target
	st := s.state.Load()
	if no := readmit(st.policy, conn); no != nil {
		s.refuse(w, r, no)
		return
	}
	if r.Host != "" || r.ProtoAtLeast(1, 1) {
		asked, err := policy.ParseTarget(target.Scheme, r.Host)
		if err != nil {
			s.refuse(w, r, &answerBadTarget)
			return
		}
		if asked != target || (r.URL.Scheme != "" && r.URL.Scheme != target.Scheme) {
			s.refuse(w, r, &answerMisdirected)
			return
		}
	}
	x := &exchange{state: st, target: target, client: conn.client, conn: conn}
	s.forward(w, r, x, conn.via)
}

// forward makes the request what the path expects, absolute, canonical and
// without hop-by-hop headers, and sends it through goproxy. via is what the
// CONNECT that carried it had in Via.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, x *exchange, via string) {
	if no := s.unfit(r); no != nil {
		s.refuse(w, r, no)
		return
	}
	var ok bool
	if x.wish, ok = wishOf(r.Header, x.conn.wished()); !ok {
		s.refuse(w, r, &answerWish)
		return
	}
	upgrade := asksForWebsocket(r)
	stripHop(r.Header)
	x.continues = len(r.Header["Expect"]) > 0
	delete(r.Header, "Expect") // net/http has answered it, or will at the first read
	if upgrade {
		r.Header["Connection"] = []string{"Upgrade"}
		r.Header["Upgrade"] = []string{"websocket"}
	}
	absolute(r.URL, x.target)
	keepPath(r.URL)
	r.Host = r.URL.Host
	r.Close = false // about the client's connection, not about the upstream's

	if x.conn != nil && r.ProtoMajor == 1 {
		x.conn.unread.Store(false)
		// Before the body is read, because net/http looks for the client's next
		// bytes as soon as it has the last of this one.
		x.conn.answering.Store(true)
		defer x.conn.answering.Store(false)
		if r.ContentLength == 0 && !upgrade {
			x.conn.bodiless.Store(true)
			defer x.conn.bodiless.Store(false)
		}
	}
	r = x.begin(w, r)
	defer s.end(x)
	if r.ContentLength == 0 {
		r.Body = http.NoBody // HTTP/2 has a body object for an empty body too
	}
	if r.Body != nil && r.Body != http.NoBody {
		if limit := int64(x.state.policy.Bounds.Upload); r.ContentLength > limit {
			s.refuse(w, r, &answerLargeBody)
			return
		}
		conn := x.conn
		if r.ProtoMajor == 1 {
			// Full duplex, so that an upstream that answers early is heard at once.
			x.writer.ctl.EnableFullDuplex()
		} else {
			conn = nil
		}
		x.upload = newUpload(r, x.writer.ctl, x.state.policy, conn)
		r.Body = x.upload
	}
	if x.state.nextHop != nil {
		chain := joinVia(via, r.Header["Via"])
		if x.target.Scheme == "http" {
			s.sign(r.Header, chain)
		}
		r = r.WithContext(upstream.WithVia(r.Context(), chain))
	}

	defer s.finish(x, r)
	defer s.rescue(x, w, r)
	if upgrade {
		s.websocket(x, r)
		return
	}
	s.pipeline.ServeHTTP(&x.writer, r)
}

// unfit says why a request cannot go on, nil when it can.
func (s *Server) unfit(r *http.Request) *answer {
	switch {
	case r.URL.User != nil:
		return &answerUserinfo
	case r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.ContentLength == 0 && r.Header["Content-Length"] == nil && wantsBody(r.Method):
		// net/http ignores Transfer-Encoding on HTTP/1.0, as it must; what
		// follows the head would then be taken for the next request.
		return &answerLengthRequired
	case !expectsOnly100(r.Header["Expect"]):
		return &answerExpectation
	case len(r.Trailer) > maxTrailers:
		return &answerTrailers
	case s.passed(r.Header["Via"]):
		return &answerLoop
	}
	return methodRefusal(r.Method)
}

// expectsOnly100 tells whether a client expects nothing, or only what net/http does.
func expectsOnly100(lines []string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one != "" && !strings.EqualFold(one, "100-continue") {
				return false
			}
		}
	}
	return true
}

// closeAfter has the client's connection end with the answer.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header()["Connection"] = []string{"close"}
	}
}

// maxTrailers bounds the fields that a request announces for its end: each
// costs a hundred times its letters for as long as the body lasts.
const maxTrailers = 64

func wantsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// absolute makes u name the target in its canonical form.
func absolute(u *url.URL, t policy.Target) {
	u.Scheme, u.User, u.Fragment = t.Scheme, nil, ""
	u.Host = hostOf(t)
}

// hostOf is a target as Host names it: without its port where that is the usual.
func hostOf(t policy.Target) string {
	switch {
	case !t.UsualPort():
		return t.HostPort()
	case strings.Contains(t.Host, ":"):
		return "[" + t.Host + "]"
	}
	return t.Host
}

// keepPath has the path go out as it came. What must not stand in a path is
// escaped, and nothing else: net/url would write the whole path anew for one such
// byte, and %2F would become a slash. A fragment is not for the wire.
func keepPath(u *url.URL) {
	if raw, _, found := strings.Cut(u.RawPath, "#"); found {
		u.RawPath, u.RawQuery, u.ForceQuery = raw, "", false
		u.Path, _ = url.PathUnescape(raw)
	}
	u.RawQuery, _, _ = strings.Cut(u.RawQuery, "#")
	if u.RawPath == "" || u.EscapedPath() == u.RawPath {
		return
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		if c := u.RawPath[i]; pathBytes[c] {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	u.RawPath = b.String()
}

// pathBytes may stand in a path (RFC 3986), % of escapes included.
var pathBytes = func() (ok [256]bool) {
	for c := range 256 {
		ok[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c < 128 && strings.IndexByte("-._~!$&'()*+,;=:@/%[]", byte(c)) >= 0
	}
	return ok
}()

// refuse answers with words of ours.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, a *answer) {
	s.metrics.Refused(a.reason)
	if conn := connOf(r); conn != nil && r.ProtoMajor == 1 && r.ContentLength != 0 {
		// net/http reads the body that nobody wants before it writes. One that
		// is there already costs nothing, and the connection can be kept; one
		// that does not come must not hold the answer up.
		conn.unread.Store(true)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBody))
	}
	a.write(w, r)
}

// refusedBody is how long a refusal waits for the body of what it refuses.
const refusedBody = time.Second

// rescue keeps a panic of ours to the one request that had it.
func (s *Server) rescue(x *exchange, w http.ResponseWriter, r *http.Request) {
	bug := recover()
	if bug == nil {
		return
	}
	if bug == http.ErrAbortHandler {
		panic(bug)
	}
	// The value of a panic may quote a header; its type and place may not.
	s.log.WithField("panic", fmt.Sprintf("%T", bug)).Errorf("abide failed while serving %s: %s", x.target.Host, frames(debug.Stack()))
	if x.writer.began {
		panic(http.ErrAbortHandler)
	}
	clear(w.Header())
	s.refuse(w, r, &answerBug)
}

// frames leaves the function names and lines of a stack and drops the
// arguments, in which pointers are all there is anyway.
func frames(stack []byte) string {
	var out []string
	for line := range strings.SplitSeq(string(stack), "\n") {
		if strings.HasPrefix(line, "\t") {
			at, _, _ := strings.Cut(strings.TrimSpace(line), " +0x")
			out = append(out, at)
		}
	}
	return strings.Join(out, " < ")
}

// finish counts what the exchange was.
func (s *Server) finish(x *exchange, r *http.Request) {
	code := x.writer.status
	if code == 0 {
		code = 499 // nothing was written: the client left
	}
	site := x.site
	if site == "" {
		site = x.state.policy.Match(x.target).Site
	}
	var asked time.Duration
	if !x.sent.IsZero() && !x.answered.IsZero() {
		asked = x.answered.Sub(x.sent)
		// Ours is what lies before the upstream was asked and between its
		// head and ours; streaming the body is the two ends' own pace.
		s.metrics.Overhead(x.first.Sub(x.start) - x.uploading - x.turn.before + x.writer.wroteHead.Sub(x.answered))
	}
	counted := x.meter
	if counted == nil {
		counted = s.metrics.Site(site)
	}
	counted.Request(r.Method, code, asked)
	if x.state.policy.Log.Access {
		s.access.note(x, r.Method, code)
	}
}
