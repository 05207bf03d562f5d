package clients

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The cases that h2spec has, and how many must pass.
const (
	h2specCases  = 145
	h2specPassed = 143
)

// h2specTime bounds h2spec, which takes some seconds.
const h2specTime = 90 * time.Second

// TestAnInterceptedConnectionSpeaksHTTP2AsH2specWantsIt runs h2spec, which knows
// no proxy, against a port behind which every connection is an intercepted one.
// The origin has the name that h2spec asks for, which is that port's.
//
// Go answers a malformed request with 400 and leaves the connection open, which
// h2spec takes for an error: it wants the stream reset or the connection closed.
// abide closes it when it has been idle for less than h2spec waits.
func TestAnInterceptedConnectionSpeaksHTTP2AsH2specWantsIt(t *testing.T) {
	t.Parallel()
	o := startOrigin(t)
	var a *abide
	var front *relay
	ready := make(chan struct{}) // closed when both are there
	front = startRelay(t, func() (net.Conn, error) {
		<-ready
		return connect(a.proxy, front.address)
	})
	a = startAbide(t, setup{intercept: "all", also: []string{front.address}, more: "timeouts: {idle: 1s}"}, o)
	close(ready)
	host, port, err := net.SplitHostPort(front.address)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	ctx, cancel := context.WithTimeout(t.Context(), h2specTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, h2specBinary,
		"--host", host, "--port", port, "--tls", "--insecure", "--timeout", "2", "--junit-report", report)
	together(cmd)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError // it ends with 1 when a case fails
	if err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		t.Fatalf("h2spec: %v\n%s", err, out)
	}

	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("h2spec left no report: %v\n%s", err, out)
	}
	var suites struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			Cases   []struct {
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatalf("h2spec's report: %v\n%s", err, text)
	}
	cases, passed := 0, 0
	for _, suite := range suites.Suites {
		for _, one := range suite.Cases {
			cases++
			if one.Failure == nil && one.Error == nil && one.Skipped == nil {
				passed++
				continue
			}
			t.Logf("not passed: %s: %s", suite.Package, one.Name)
		}
	}
	if cases != h2specCases || passed < h2specPassed {
		t.Errorf("%d of %d cases pass, not %d of %d", passed, cases, h2specPassed, h2specCases)
	}
}

// connect opens a tunnel through a proxy.
func connect(proxy, target string) (net.Conn, error) {
	conn, err := dialer(proxy)()
	if err != nil {
		return nil, err
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if err := request.Write(conn); err != nil {
		conn.Close()
		return nil, err
	}
	// The server of a TLS connection speaks second, so there is nothing behind
	// the answer that the reader could swallow.
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("CONNECT %s: %s", target, response.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
