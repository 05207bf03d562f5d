package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// closeCounter is a request body that tells whether it was closed.
type closeCounter struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeCounter) Close() error {
	c.closed.Add(1)
	return nil
}

// endless is a request body that goes on until it is closed.
type endless struct {
	once sync.Once
	end  chan struct{}
	hold chan struct{} // closed: it goes on; nil: it does not wait
}

func newEndless() *endless { return &endless{end: make(chan struct{})} }

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-e.end:
		return 0, net.ErrClosed
	default:
	}
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-e.end:
			return 0, net.ErrClosed
		}
	}
	return len(p), nil
}

func (e *endless) Close() error {
	e.once.Do(func() { close(e.end) })
	return nil
}

func TestABodyWithoutEndIsNotDrained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Read(make([]byte, 4096))
		_, err = io.WriteString(c, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
		for err == nil {
			_, err = io.WriteString(c, "5\r\nhello\r\n")
		}
	}()
	resp, err := newTransport(t).RoundTrip(newRequest(t, "GET", "http://"+l.Addr().String()+"/", nil))
	if err != nil || resp.StatusCode != 429 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	<-gone // Close closed the connection
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Fatalf("reading a closed body: %v", err)
	}
}

func TestATruncatedChunkedBodyIsAnError(t *testing.T) {
	for _, chunks := range []string{"", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0", "5\r\nhello\r\n0\r\n", "0\r\n", "0\r\nX: y\r\n"} {
		s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, close: true}})
		_, _, err := ask(t, newTransport(t), newRequest(t, "GET", "http://"+s.addr+"/", nil))
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", chunks, err)
		}
	}
}

func TestATruncatedBodyOfKnownLengthIsAnError(t *testing.T) {
	s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", close: true}})
	_, body, err := ask(t, newTransport(t), newRequest(t, "GET", "http://"+s.addr+"/", nil))
	if body != "hello" || err != io.ErrUnexpectedEOF {
		t.Fatalf("%q, %v", body, err)
	}
}

func TestAGetOnANewConnectionIsSentOnce(t *testing.T) {
	s := playing(t, []step{{close: true}})
	_, _, err := ask(t, newTransport(t), newRequest(t, "GET", "http://"+s.addr+"/", nil))
	wantLost(t, err, false)
	if n := len(s.requests()); n != 1 {
		t.Fatalf("%d requests came", n)
	}
}

func TestAnAnswerBeforeTheBodyWasReadComesAtOnce(t *testing.T) {
	for name, answer := range map[string]string{
		"with a body":      "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
		"without":          "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n",
		"chunked":          "HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n0\r\n\r\n",
		"with its own end": "HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\nbig",
	} {
		t.Run(name, func(t *testing.T) {
			s := playing(t, []step{{early: answer, blind: true, close: strings.Contains(answer, "close")}})
			body := newEndless()
			body.hold = make(chan struct{}) // the client waits for the answer
			resp, err := newTransport(t).RoundTrip(newRequest(t, "POST", "http://"+s.addr+"/", body))
			if err != nil {
				t.Fatal(unwrapped(err))
			}
			if resp.StatusCode != 413 {
				t.Fatal(resp.Status)
			}
			if data, err := io.ReadAll(resp.Body); err != nil || len(data) > 3 {
				t.Fatalf("%q, %v", data, err)
			}
			resp.Body.Close()
			select {
			case <-body.end:
			default:
				t.Fatal("the request's body is still open")
			}
		})
	}
}

func TestAnOriginThatAnswersAndClosesWhileTheBodyStreams(t *testing.T) {
	for range 20 {
		s := playing(t, []step{{early: "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", blind: true, close: true}})
		resp, err := newTransport(t).RoundTrip(newRequest(t, "POST", "http://"+s.addr+"/", newEndless()))
		if err != nil {
			continue // a reset may overtake the answer; that must end in an error, and does
		}
		if resp.StatusCode != 413 {
			t.Fatal(resp.Status)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func TestACancelledRequestEndsAtOnce(t *testing.T) {
	for name, body := range map[string]io.Reader{"without a body": nil, "with one": newEndless()} {
		s := playing(t, nil) // reads and says nothing
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(50*time.Millisecond, func() { cancel(nil) })
		req := newRequest(t, "POST", "http://"+s.addr+"/", body).WithContext(ctx)
		_, _, err := ask(t, newTransport(t), req)
		wantKind(t, err, Canceled)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", name, unwrapped(err))
		}
	}
}

func TestACancelledRequestEndsWhileItsBodyIsRead(t *testing.T) {
	s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"}})
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := newTransport(t).RoundTrip(newRequest(t, "GET", "http://"+s.addr+"/", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = io.ReadAll(resp.Body)
	wantKind(t, err, Canceled)
}

func TestCloseFreesAReadOfTheBody(t *testing.T) {
	s := playing(t, []step{{answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"}})
	resp, err := newTransport(t).RoundTrip(newRequest(t, "GET", "http://"+s.addr+"/", nil))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := io.ReadAll(resp.Body)
		done <- err
	}()
	time.AfterFunc(20*time.Millisecond, func() { resp.Body.Close() })
	if err := <-done; err == nil {
		t.Fatal("half a body was read without an error")
	}
}

func TestAnOriginThatDoesNotAnswerIsGivenUp(t *testing.T) {
	for name, body := range map[string]io.Reader{"without a body": nil, "with one": struct{ io.Reader }{strings.NewReader("data")}} {
		s := playing(t, []step{{}})
		tr := newTransport(t)
		tr.AnswerTimeout = 80 * time.Millisecond
		_, _, err := ask(t, tr, newRequest(t, "POST", "http://"+s.addr+"/", body))
		if KindOf(err) != AnswerTimeout {
			t.Fatalf("%s: %v", name, unwrapped(err))
		}
	}
}

func TestAnOriginThatStopsTakingABodyIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts
	tr := newTransport(t)
	tr.StallTimeout = 80 * time.Millisecond
	body := newEndless()
	_, _, err = ask(t, tr, newRequest(t, "POST", "http://"+l.Addr().String()+"/", body))
	wantKind(t, err, Stalled)
	<-body.end
}

func TestARequestBodyThatBreaksIsNotTheOriginsFault(t *testing.T) {
	s := playing(t, []step{{}}) // an answer could come before the fault is seen
	for name, body := range map[string]io.Reader{
		"at once":        brokenReader{},
		"in the middle":  io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), brokenReader{}),
		"by being short": struct{ io.Reader }{strings.NewReader("x")},
		"by being long":  struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 300_000))},
	} {
		req := newRequest(t, "POST", "http://"+s.addr+"/", body)
		if strings.HasPrefix(name, "by") {
			req.ContentLength = 5000
		}
		_, _, err := ask(t, newTransport(t), req)
		var bad *requestBodyError
		if KindOf(err) != Upload || !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, unwrapped(err))
		}
	}
}

func TestAMegabyteBothWaysAtOnce(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(echo)
	}()
	defer func() {
		server.Close()
		<-done
	}()
	want := strings.Repeat("0123456789abcdef", 1<<16)
	req := newRequest(t, "POST", "http://"+echo.Addr().String()+"/", struct{ io.Reader }{strings.NewReader(want)})
	_, body, err := ask(t, newTransport(t), req)
	if err != nil || body != want {
		t.Fatalf("%d bytes came back, %v", len(body), unwrapped(err))
	}
}
