package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "correct-horse-battery"

// bed is an admin listener on loopback with what it shows.
type bed struct {
	t       *testing.T
	policy  *policy.Policy
	metrics *metrics.Metrics
	address string
	client  *http.Client
}

// newBed starts one, with its options as change leaves them.
func newBed(t *testing.T, change func(*policy.Policy, *given)) *bed {
	t.Helper()
	authority, err := ca.Open("", ca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Defaults()
	b := &bed{t: t, policy: p, metrics: metrics.New(1000)}
	o := given{Options: Options{
		Policy: func() *policy.Policy { return p }, CA: authority, Metrics: b.metrics,
		Version: "v1.2.3", Started: time.Now().Add(-time.Hour),
	}}
	if change != nil {
		change(p, &o)
	}
	b.address = serve(t, Server(New(o.options())), nil)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	b.client = &http.Client{Transport: transport, Timeout: 5 * time.Minute}
	return b
}

func withToken(p *policy.Policy, _ *given) { p.Admin.Token = policy.NewSecret(token) }

// listen finds a port on loopback. A test elsewhere that holds ten thousand
// connections can take every port of one address, but not those of the next.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for last := 1; last < 50; last++ {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", last)); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// serve runs a server until the test ends. wrap may change its listener.
func serve(t *testing.T, server *http.Server, wrap func(net.Listener) net.Listener) string {
	t.Helper()
	listener := listen(t)
	address := listener.Addr().String()
	if wrap != nil {
		listener = wrap(listener)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		serving.Wait()
	})
	return address
}

type response struct {
	*http.Response
	body string
}

// ask sends one request; headers come as "Name: value", and Host as well.
func (b *bed) ask(method, path, body string, headers ...string) response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.address+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range headers {
		name, value, _ := strings.Cut(one, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response{answer, strings.ReplaceAll(string(text), "<wbr>", "")}
}

func (b *bed) get(path string, headers ...string) response {
	b.t.Helper()
	return b.ask(http.MethodGet, path, "", headers...)
}

// raw sends exactly these bytes.
func (b *bed) raw(text string) response {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		b.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatalf("%q: %v", text, err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return response{answer, string(body)}
}

// open are the routes that anybody may ask for.
var open = []string{"/healthz", "/readyz", "/ca.pem", "/bundle.pem", "/bundle.jks"}

// routes are all that need the token, with what they take.
var routes = []struct{ method, path string }{
	{"GET", "/"},
	{"GET", "/style.css"},
	{"GET", "/page.js"},
	{"GET", "/icon.svg"},
	{"GET", "/api/v1/events?count=1"},
	{"GET", "/metrics"},
	{"GET", "/api/v1/status"},
	{"GET", "/api/v1/holds"},
	{"GET", "/api/v1/holds?site=a.test&limit=1"},
	{"GET", "/api/v1/explain?url=https://a.test/"},
	{"GET", "/api/v1/tokens"},
	{"GET", "/api/v1/tokens/twitter"},
	{"POST", "/api/v1/tokens/twitter/news%2F1/disable"},
	{"POST", "/api/v1/tokens/twitter/news%2F1/enable"},
	{"POST", "/tokens"},
	{"POST", "/sites"},
	{"POST", "/limits"},
	{"POST", "/api/v1/sites/api.test/pause"},
	{"POST", "/api/v1/sites/api.test/try"},
	{"POST", "/api/v1/sites/api.test/resume"},
	{"POST", "/api/v1/sites/api.test/forget"},
	{"POST", "/api/v1/reload"},
	{"GET", "/api/v1/sites"},
	{"GET", "/api/v1/sites/a.test"},
	{"GET", "/api/v1/sites/a.test/limits"},
	{"PUT", "/api/v1/sites/a.test/limits"},
	{"DELETE", "/api/v1/sites/a.test/limits"},
	{"POST", "/api/v1/permits"},
	{"POST", "/api/v1/permits/settle"},
	{"POST", "/api/v1/permits/0123"},
	{"DELETE", "/api/v1/permits/0123"},
	{"GET", "/api/v1/forecast?site=a.test&requests=1"},
	{"GET", "/api/v1/bandwidth?since=1h"},
	{"GET", "/api/v1/report?by=client"},
	{"GET", "/api/v1/advice"},
	{"GET", "/nowhere"},
	{"PUT", "/"},
	{"OPTIONS", "/"},
	{"GET", "/ca-key.pem"},
	{"GET", "/healthz/"},
	{"GET", "/readyz/"},
	{"GET", "/ca.pem/"},
	{"POST", "/ca.pem"},
	{"GET", "/healthz/../metrics"},
	{"GET", "/%68ealthz/x"},
}
