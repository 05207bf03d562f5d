package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// step is what a scripted origin does with one request.
type step struct {
	early  string // written before the request's body is read
	answer string // written after the request has been read
	blind  bool   // does not read the body at all
	reset  bool   // closes so that the client sees a reset
	close  bool   // closes afterwards
}

// script is an origin that plays steps on its connections: the first
// connection plays the first list, and so on, the last list again and again.
type script struct {
	addr  string
	lists [][]step

	mu    sync.Mutex
	conns int
	open  []net.Conn
	asked []string // what came, in canonical spelling
	wait  sync.WaitGroup
	ended chan struct{} // one value for each connection that the script has ended
}

func playing(tb testing.TB, lists ...[]step) *script {
	tb.Helper()
	return playingOver(tb, nil, lists...)
}

// playingOver is playing with TLS, when there is a config for it.
func playingOver(tb testing.TB, config *tls.Config, lists ...[]step) *script {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &script{addr: l.Addr().String(), lists: lists, ended: make(chan struct{}, 1000)}
	s.wait.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.wait.Go(func() { s.play(nc.(*net.TCPConn), config) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, nc := range s.open {
			nc.Close()
		}
		s.mu.Unlock()
		s.wait.Wait()
	})
	return s
}

func (s *script) play(tcp *net.TCPConn, config *tls.Config) {
	nc := net.Conn(tcp)
	if config != nil {
		nc = tls.Server(tcp, config)
	}
	defer nc.Close()
	s.mu.Lock()
	list := s.lists[min(s.conns, len(s.lists)-1)]
	s.conns++
	s.open = append(s.open, tcp)
	s.mu.Unlock()
	br := bufio.NewReader(nc)
	for _, st := range list {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.WriteString(nc, st.early)
		note := describeRequest(req, st.blind)
		s.mu.Lock()
		s.asked = append(s.asked, note)
		s.mu.Unlock()
		io.WriteString(nc, st.answer)
		if st.reset {
			tcp.SetLinger(0)
		}
		if st.close || st.reset {
			nc.Close()
			s.ended <- struct{}{}
			return
		}
	}
	io.Copy(io.Discard, br) // until the client goes
}

func (s *script) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *script) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func describeRequest(req *http.Request, blind bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s host=%s length=%d coding=%v close=%v\n", req.Method, req.RequestURI, req.Proto, req.Host,
		req.ContentLength, req.TransferEncoding, req.Close)
	describeHeader(&b, "> ", req.Header)
	if blind {
		return b.String()
	}
	body, err := io.ReadAll(req.Body)
	fmt.Fprintf(&b, "body %q whole=%v\n", body, err == nil)
	describeHeader(&b, "trailer ", req.Trailer)
	return b.String()
}

func describeHeader(b *strings.Builder, prefix string, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "Host" {
			continue
		}
		fmt.Fprintf(b, "%s%s: %q\n", prefix, name, h[name])
	}
}

// certified gives both ends of TLS what they need; the name is example.com.
func certified(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates},
		&tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
}

// newTransport is one as the tests need it: impatient, and closed at their end.
func newTransport(tb testing.TB) *Transport {
	tb.Helper()
	t := &Transport{
		Dial: dialPlainly, AnswerTimeout: 10 * time.Second, StallTimeout: 10 * time.Second,
		HandshakeTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
	}
	tb.Cleanup(t.Close)
	return t
}

func newRequest(tb testing.TB, method, url string, body io.Reader) *http.Request {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	tb.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("User-Agent", "test")
	return req
}

// ask reads an answer to its end.
func ask(tb testing.TB, rt http.RoundTripper, req *http.Request) (code int, body string, err error) {
	tb.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func wantKind(tb testing.TB, err error, kind Kind) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want %v", kind)
	}
	if got := KindOf(err); got != kind {
		tb.Fatalf("kind %v (%v), want %v", got, unwrapped(err), kind)
	}
}

// unwrapped tells all that an *Error keeps to itself.
func unwrapped(err error) string {
	var all []string
	for ; err != nil; err = asUnwrapper(err) {
		all = append(all, err.Error())
	}
	return strings.Join(all, " < ")
}

func asUnwrapper(err error) error {
	u, ok := err.(interface{ Unwrap() error })
	if !ok {
		return nil
	}
	return u.Unwrap()
}

// eventually waits until told is true, for as long as the test may.
func eventually(tb testing.TB, told func() bool) {
	tb.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !told() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatal("it never came to be")
		}
	}
}
