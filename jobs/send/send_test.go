package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// senders are the ways of a request: by a dispatcher, and without one.
func senders(t *testing.T) map[string]Sender {
	t.Helper()
	p, err := policy.Load(policy.Source{Data: []byte("{egress: {allow: [127.0.0.0/8]}, data: none, retry: {attempts: 1, base: 1ms, max: 2ms}}")})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := dispatch.New(dispatch.Options{Policy: p, Metrics: metrics.New(10), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	direct := Through(func(*http.Request) (*url.URL, error) { return nil, nil }, nil, "orders")
	t.Cleanup(func() { stop(); <-ended; direct.Close() })
	return map[string]Sender{"dispatcher": New(d), "transport": direct}
}

func TestWhatASenderReturns(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	origin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s %s", r.Method, r.URL.RawQuery, body)
		case "/moved":
			http.Redirect(rw, r, "/echo?moved", http.StatusFound)
		case "/away":
			http.Redirect(rw, r, other.URL, http.StatusFound)
		case "/breaks":
			rw.Header().Set("Content-Length", "100")
			rw.Write([]byte("half"))
		case "/later":
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(500)
		default:
			http.NotFound(rw, r)
		}
	}))
	defer origin.Close()
	now := time.Unix(1_000_000, 0)
	for name, s := range senders(t) {
		for _, c := range []struct {
			method, path, sends, want string
			failure                   Failure
		}{
			{method: "GET", path: "/echo?a=1", want: "GET a=1 "},
			{method: "POST", path: "/echo", sends: "hello", want: "POST  hello"},
			{method: "GET", path: "/moved", want: "GET moved "},
			{method: "GET", path: "/away", failure: Failure{Text: "leads to another origin", Permanent: true}},
			{method: "GET", path: "/none", failure: Failure{Text: "404 Not Found", Permanent: true}},
			{method: "GET", path: "/breaks", failure: Failure{Text: "broke off"}},
			{method: "GET", path: "/later", failure: Failure{Text: "500", After: now.Add(7 * time.Second)}},
		} {
			r, _ := http.NewRequest(c.method, origin.URL+c.path, strings.NewReader(c.sends))
			if c.sends == "" {
				r, _ = http.NewRequest(c.method, origin.URL+c.path, nil)
			}
			resp, err := s.Send(t.Context(), r, Options{Client: "orders", Priority: 4})
			a, err := NewMemory(1<<20).Read(resp, err, now)
			var f *Failure
			switch {
			case c.want != "":
				if err != nil || string(a.Body) != c.want {
					t.Errorf("%s: %s: %+v, %v", name, c.path, a, err)
				}
			case !errors.As(err, &f) || !strings.Contains(f.Text, c.failure.Text) || f.Permanent != c.failure.Permanent || !f.After.Equal(c.failure.After) || f.Held:
				t.Errorf("%s: %s: %+v", name, c.path, err)
			}
		}
	}
}

func TestARefusalOfAbideSaysNothingAboutTheRequest(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		status    int
		after     string
		held      bool
		permanent bool
	}{
		{429, "30", true, false},
		{503, "30", true, false},
		{503, "", false, false},
		{502, "", false, false},
		{403, "", false, true},
		{421, "", false, true},
	} {
		h := http.Header{"Proxy-Status": {`abide; error=http_request_denied; details="breaker"`}}
		if c.after != "" {
			h.Set("Retry-After", c.after)
		}
		r, _ := http.NewRequest("GET", "http://api.test/", nil)
		_, err := NewMemory(1<<20).Read(&http.Response{StatusCode: c.status, Header: h, Body: http.NoBody, Request: r}, nil, now)
		var f *Failure
		if !errors.As(err, &f) || f.Held != c.held || f.Permanent != c.permanent || !strings.Contains(f.Text, "the site is being left alone") {
			t.Errorf("%d: %+v", c.status, err)
		}
	}
}

// A request says when it begins to wait for its next attempt, and when that wait is over, also if it gives up.
func TestARequestSaysWhenItWaitsForItsNextAttempt(t *testing.T) {
	var asked atomic.Int32
	origin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 || r.URL.Path == "/away" {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer origin.Close()
	s := senders(t)["dispatcher"]
	for path, want := range map[string]string{"/": "[true false]", "/away": "[true false]"} {
		asked.Store(0)
		var rests []bool
		r, _ := http.NewRequest("GET", origin.URL+path, nil)
		resp, err := s.Send(t.Context(), r, Options{Rest: func(yes bool) { rests = append(rests, yes) }})
		if a, _ := NewMemory(1<<20).Read(resp, err, time.Now()); fmt.Sprint(rests) != want {
			t.Errorf("%s: %v, %+v", path, rests, a)
		}
	}
}

func TestACanceledRequestIsNoFailure(t *testing.T) {
	waits := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer waits.Close()
	for name, s := range senders(t) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		r, _ := http.NewRequest("GET", waits.URL, nil)
		resp, err := s.Send(ctx, r, Options{})
		if _, err = NewMemory(1<<20).Read(resp, err, time.Now()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of bodies that are more than the memory one is read at a time, and the next when it is released.
func TestABodyWaitsUntilThereIsMemory(t *testing.T) {
	m := NewMemory(10)
	read := func(ctx context.Context) (*Answer, error) {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://api.test/", nil)
		return m.Read(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", 30))), Request: r}, nil, time.Now())
	}
	first, err := read(t.Context())
	if err != nil || len(first.Body) != 30 || !m.Full() {
		t.Fatal(first, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	var f *Failure
	if _, err := read(ended); !errors.As(err, &f) || !f.Held {
		t.Errorf("a second body beyond the bound: %v", err)
	}
	first.Release()
	first.Release()
	if second, err := read(t.Context()); err != nil || len(second.Body) != 30 {
		t.Error(second, err)
	} else if second.Release(); m.Full() || m.left.Load() != 10 {
		t.Errorf("%d bytes are left of 10", m.left.Load())
	}
}
