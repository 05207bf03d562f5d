// Package dispatchtest runs a Dispatcher in a bubble of testing/synctest, for tests. A handler
// answers in place of sites, and Dispatcher.Do is the client: there is no socket.
//
//	dispatchtest.Run(t, sites, "sites: [{host: a.test, limits: [{requests: 1, per: 1m}]}]\n", func(w *dispatchtest.Rig) {
//		a := w.Get("http://a.test/", "Abide-Priority", "0")
//		// a.Status, a.Header, a.Body, a.At; of its dispatch.Report: a.Attempts, a.Waited, a.Token
//	})
package dispatchtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/permits"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// Rig is a Dispatcher with its sites.
type Rig struct {
	*dispatch.Dispatcher
	*dispatch.View
	*dispatch.Operator
	*permits.Permits

	T        testing.TB
	Sites    http.HandlerFunc                              // answers for every host
	Send     func(r *http.Request) (*http.Response, error) // is called for each attempt: Answer, or what a test puts in front of it
	Began    time.Time
	Asked    atomic.Int64  // requests that have reached a site
	Ended    atomic.Int64  // requests that have ended, those for robots.txt too
	Log      *logtest.Hook // what the Dispatcher has written
	handlers sync.WaitGroup
	Close    func() // ends the Dispatcher as Server.Serve of package proxy does at a stop
}

// Run runs a test in a bubble.
func Run(t *testing.T, sites http.HandlerFunc, yaml string, test func(w *Rig)) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(t, sites, yaml, dispatch.Keeping{})
		test(w)
		w.Close()
	})
}

// Start starts a Dispatcher in a bubble. Close must follow.
func Start(t testing.TB, sites http.HandlerFunc, yaml string, k dispatch.Keeping) *Rig {
	w := &Rig{T: t, Sites: sites, Began: time.Now()}
	w.Send = w.Answer
	log, counts := logrus.New(), metrics.New(100)
	log.SetOutput(io.Discard)
	w.Log = logtest.NewLocal(log)
	var err error
	w.Dispatcher, err = dispatch.New(dispatch.Options{
		Policy: w.Load(yaml), Metrics: counts, Log: log, Keeping: k,
		Upstream: func(*upstream.Transport) http.RoundTripper { return w },
		Ended:    func(dispatch.Report) { w.Ended.Add(1) },
	})
	w.check(err)
	w.View, w.Operator, w.Permits = dispatch.NewView(w.Dispatcher, nil), dispatch.NewOperator(w.Dispatcher), permits.New(w.Dispatcher, counts)
	background, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(background) })
	w.Close = sync.OnceFunc(func() {
		defer w.handlers.Wait()
		w.CancelBackground()
		w.SettleAll()
		soon, cancel := context.WithTimeout(background, w.Policy().Timeouts.Drain)
		defer cancel()
		w.DrainQueue(soon)
		end()
		running.Wait()
	})
	return w
}

func (w *Rig) check(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Load returns the policy of a configuration.
func (w *Rig) Load(yaml string) *policy.Policy {
	p, err := policy.Load(policy.Source{Path: "test.yaml", Data: []byte("data: none\n" + yaml), Lookup: func(string) (string, bool) { return "", false }})
	w.check(err)
	return p
}

// Reload changes the configuration.
func (w *Rig) Reload(yaml string) {
	w.check(w.Dispatcher.Reload(w.Load(yaml)))
}

// Result is the answer that a client got, and the time.
type Result struct {
	dispatch.Report
	Status int // that of problem.Left if the client has left
	Header http.Header
	Body   string
	At     time.Duration // since the Rig began
}

// Get sends a GET with headers: names and values in turn.
func (w *Rig) Get(url string, headers ...string) Result {
	return w.Do(w.T.Context(), http.MethodGet, url, "", headers...)
}

// Do sends a request and reads its answer, the site's or that of a refusal. A client leaves by ctx.
func (w *Rig) Do(ctx context.Context, method, url, body string, headers ...string) Result {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	w.check(err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	x, err := w.NewRequest(r)
	w.check(err)
	x.Address, x.Caller = "192.0.2.1", caller{body: body}
	options, ok := dispatch.ReadOptions(r.Header, x.Options)
	x.Client = x.Snapshot.Policy().Client(options.Client)
	if x.Options = options; !ok {
		return Result{Status: problem.Wish.Status, At: time.Since(w.Began)}
	}
	resp, err := w.Dispatcher.Do(ctx, x)
	if refused := (*problem.Problem)(nil); errors.As(err, &refused) {
		resp = refused.Response(r, x.Site())
	}
	x.RewriteRedirects(resp.Header)
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	w.End(x, int64(len(text)))
	if err != nil && ctx.Err() == nil {
		w.T.Errorf("reading an answer: %v", err)
	}
	return Result{x.Report(), resp.StatusCode, resp.Header, string(text), time.Since(w.Began)}
}

// caller is a client whose body can be sent again.
type caller struct {
	dispatch.NoCaller
	body string
}

func (c caller) HasBody() bool                 { return c.body != "" }
func (c caller) Replayable(*http.Request) bool { return true }

func (c caller) Attempt(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(strings.NewReader(c.body))
	return r
}

// RoundTrip calls Send.
func (w *Rig) RoundTrip(r *http.Request) (*http.Response, error) { return w.Send(r) }

// Answer returns the answer of Sites to a request, when it is complete. If the client leaves, the
// handler goes on alone.
func (w *Rig) Answer(r *http.Request) (*http.Response, error) {
	out, ended := httptest.NewRecorder(), make(chan any, 1)
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header.Clone()
	w.handlers.Go(func() {
		defer func() { ended <- recover() }()
		w.Asked.Add(1)
		w.Sites(out, in)
	})
	select {
	case <-r.Context().Done():
		return nil, &upstream.Error{Kind: upstream.Canceled, Sent: true}
	case fault := <-ended:
		if fault == http.ErrAbortHandler {
			return nil, &upstream.Error{Kind: upstream.Closed, Sent: true}
		}
		if fault != nil {
			panic(fault)
		}
	}
	resp := out.Result()
	if resp.Request = r; resp.Header.Get("Date") == "" {
		resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if n := int64(out.Body.Len()); resp.ContentLength < 0 {
		resp.ContentLength = n
	} else if n < resp.ContentLength && r.Method != http.MethodHead {
		resp.Body = io.NopCloser(io.MultiReader(out.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return resp, nil
}
