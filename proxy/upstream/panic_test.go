package upstream

import (
	"context"
	"net"
	"testing"
	"time"
)

// A fault in what dials ends one request, and not the closing of the transport.
func TestAPanicWhileDialingLeavesNothingBehind(t *testing.T) {
	for _, url := range []string{"http://a.test/", "https://a.test/"} {
		tr := newTransport(t)
		tr.Dial = func(context.Context, string, uint16) (net.Conn, error) { panic("a fault") }
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it was swallowed")
				}
			}()
			tr.RoundTrip(newRequest(t, "GET", url, nil))
		}()
		closed := make(chan struct{})
		go func() { tr.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s: the transport does not close", url)
		}
	}
}
