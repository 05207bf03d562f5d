package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// inMemory is a listener that needs no time.
type inMemory chan net.Conn

func (l inMemory) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	l <- loopback{there}
	return here, nil
}

// loopback is a connection that came from this machine.
type loopback struct{ net.Conn }

func (loopback) RemoteAddr() net.Addr { return inMemory(nil).Addr() }
func (loopback) LocalAddr() net.Addr  { return inMemory(nil).Addr() }

func (l inMemory) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l inMemory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (l inMemory) Close() error   { close(l); return nil }

func TestAPermitMayBeWaitedForLongerThanTheListenerWrites(t *testing.T) {
	for _, wait := range []string{"", `,"wait":"1m"`} {
		synctest.Test(t, func(t *testing.T) {
			open := make(chan struct{})
			p := policy.Defaults()
			asked := make(chan context.Context, 1)
			server := Server(New((&given{
				Options: Options{Policy: func() *policy.Policy { return p }, Metrics: metrics.New(10)},
				Permit: func(ctx context.Context, _ status.PermitAsk) (status.Grant, error) {
					asked <- ctx
					select {
					case <-open:
						return status.Grant{ID: "x"}, nil
					case <-ctx.Done():
						return status.Grant{}, ctx.Err()
					}
				},
			}).options()))
			server.ReadTimeout, server.WriteTimeout = 10*time.Second, 10*time.Second
			l := make(inMemory)
			go server.Serve(l)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{DialContext: l.dial}}
			defer client.CloseIdleConnections()
			answers := make(chan error, 1)
			go func() {
				answer, err := client.Post("http://127.0.0.1/api/v1/permits", "application/json", strings.NewReader(`{"url":"https://a.test/"`+wait+`}`))
				if err == nil {
					answer.Body.Close()
					if answer.StatusCode != 200 {
						err = errors.New(answer.Status)
					}
				}
				answers <- err
			}()
			var ctx context.Context
			select {
			case ctx = <-asked:
			case err := <-answers:
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			if ctx.Err() != nil {
				t.Errorf("%q: it was cut off", wait)
			}
			close(open)
			if err := <-answers; (err == nil) != (wait != "") {
				t.Errorf("%q: %v", wait, err)
			}
		})
	}
}
