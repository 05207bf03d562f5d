package clients

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// said is an answer, as it came.
type said struct {
	status int
	header http.Header
	head   string // the status line and all headers, those of answers before it too
	body   string
}

// speak sends a request, written as it is, to abide or into a tunnel that abide
// makes, over TLS but for port 80. The tunnel's refusal is an answer too.
func (a *abide) speak(t *testing.T, connect, request string) said {
	t.Helper()
	answer, err := a.try(t, connect, request)
	if err != nil {
		t.Fatalf("%s %q: %v", connect, request, err)
	}
	return answer
}

// try is speak where the answer may end before its end.
func (a *abide) try(t *testing.T, connect, request string) (said, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", a.proxy, clientTime)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(clientTime)); err != nil {
		t.Fatal(err)
	}
	if connect != "" {
		first, err := hear(conn, "CONNECT "+connect+" HTTP/1.1\r\nHost: "+connect+"\r\n\r\n")
		if err != nil || first.status != http.StatusOK {
			return first, err
		}
		if host, port, _ := net.SplitHostPort(connect); port != "80" {
			// Who abide says to be is not what is looked at here.
			conn = tls.Client(conn, &tls.Config{ServerName: strings.Trim(host, "."), InsecureSkipVerify: true})
		}
	}
	return hear(conn, request)
}

// hear is what comes back, as far as it does.
func hear(conn net.Conn, request string) (s said, err error) {
	if _, err := io.WriteString(conn, request); err != nil {
		return s, err
	}
	method, _, _ := strings.Cut(request, " ")
	in := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return s, err
		}
		s.begin(response)
		switch {
		case method == http.MethodConnect && s.status == http.StatusOK:
			return s, nil // the tunnel
		case s.status >= 200:
			return s, s.read(response)
		}
	}
}

func (s *said) begin(response *http.Response) {
	var head strings.Builder
	head.WriteString(s.head + response.Proto + " " + response.Status + "\r\n")
	_ = response.Header.Write(&head) // a Builder takes everything
	s.status, s.header, s.head = response.StatusCode, response.Header, head.String()
}

// read reads the body, and what stands behind it.
func (s *said) read(response *http.Response) error {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.body = string(body)
	var trailer strings.Builder
	_ = response.Trailer.Write(&trailer) // a Builder takes everything
	s.head += trailer.String()
	return err
}

// client is one that trusts abide, follows no redirect and keeps no connection.
func (a *abide) client(t *testing.T) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(a.trust.caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: a.proxy}),
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, Timeout: clientTime, CheckRedirect: stay}
}

// fetch is a GET with a token of the client's own, which must be nobody's.
func (a *abide) fetch(t *testing.T, c *http.Client, at string) said {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer dummy")
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, response)
}

// whole is an answer that was received.
func whole(t *testing.T, response *http.Response) said {
	t.Helper()
	var s said
	s.begin(response)
	if err := s.read(response); err != nil {
		t.Fatal(err)
	}
	return s
}

// operate asks the admin listener for anything.
func (a *abide) operate(t *testing.T, method, path string) said {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, response)
}
