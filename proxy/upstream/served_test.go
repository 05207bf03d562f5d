package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// freed is a server's request body whose Close ends a Read that waits for the
// client. That of net/http waits with it.
type freed struct {
	io.ReadCloser
	on *http.ResponseController
}

func (f freed) Close() error {
	f.on.SetReadDeadline(time.Unix(1, 0))
	return f.ReadCloser.Close()
}

// TestAClientThatIsStillUploadingSeesTheAnswer shows how a server has to
// hand its requests on for this: in full duplex, with a body that Close frees.
func TestAClientThatIsStillUploadingSeesTheAnswer(t *testing.T) {
	for name, length := range map[string]string{"of known length": "Content-Length: 1000000", "chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			s := playing(t, []step{{early: "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", blind: true}})
			tr := newTransport(t)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				on := http.NewResponseController(w)
				on.EnableFullDuplex()
				out := r.Clone(r.Context())
				out.URL.Scheme, out.URL.Host = "http", s.addr
				out.Body = freed{r.Body, on}
				resp, err := tr.RoundTrip(out)
				if err != nil {
					t.Error(unwrapped(err))
					return
				}
				defer resp.Body.Close()
				w.Header().Set("Connection", "close")
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			})}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				server.Serve(l)
			}()
			defer func() {
				server.Close()
				<-done
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(10 * time.Second))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\n"+length+"\r\n\r\n5\r\nhello\r\n") // and no more
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 413 || string(data) != "big" || err != nil {
				t.Fatalf("%s %q %v", resp.Status, data, err)
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("the connection was not closed: %v", err)
			}
		})
	}
}

// A body whose Close waits for its Read, as that of net/http does, holds
// nothing up but the Transport's own Close.
func TestABodyThatCannotBeFreedDoesNotHoldTheAnswerUp(t *testing.T) {
	s := playing(t, []step{{early: "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", blind: true}})
	tr := newTransport(t)
	body := &stubborn{more: make(chan struct{}), closed: make(chan struct{})}
	wantAnswer(t, tr, newRequest(t, "POST", "http://"+s.addr+"/", body), "big")
	select {
	case <-body.closed:
		t.Fatal("it could be freed")
	default:
	}
	close(body.more)
	<-body.closed
}

type stubborn struct{ more, closed chan struct{} }

func (s *stubborn) Read([]byte) (int, error) {
	<-s.more
	return 0, net.ErrClosed
}

func (s *stubborn) Close() error {
	<-s.more
	close(s.closed)
	return nil
}
