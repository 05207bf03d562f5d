package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// timely is a duplex that has deadlines for both of its ways.
type timely struct{ *duplex }

func (c timely) SetWriteDeadline(t time.Time) error { return c.to.SetWriteDeadline(t) }

func (c timely) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetDeadline(t), c.to.SetDeadline(t))
}

// memorized is a transport to an origin in memory, for fake time.
func memorized(t *testing.T, origin func(net.Conn)) *Transport {
	tr := newTransport(t)
	tr.Dial = func(context.Context, string, uint16) (net.Conn, error) {
		here, there := duplexes()
		go func() {
			defer there.Close()
			origin(there)
		}()
		return timely{here}, nil
	}
	return tr
}

func TestAConnectionAfterASwitchIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := memorized(t, func(c net.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
			io.Copy(c, c)
		})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", "http://api.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // which no longer matters
		nc, ok := resp.Body.(net.Conn)
		if !ok {
			t.Fatalf("the body is %T", resp.Body)
		}
		defer nc.Close()
		time.Sleep(time.Hour) // longer than any timeout of the Transport
		fmt.Fprint(nc, "late")
		nc.(interface{ CloseWrite() error }).CloseWrite()
		data, err := io.ReadAll(nc)
		if err != nil || string(data) != "early late" {
			t.Fatalf("%q, %v", data, err)
		}
		if nc.(interface{ NetConn() net.Conn }).NetConn() == nil {
			t.Fatal("no connection below")
		}
	})
}

func TestAnAnswerThatDripsIsHandedOnAndOneThatStopsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := memorized(t, func(c net.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
			for range 8 { // longer in all than a stall may take
				time.Sleep(9 * time.Second)
				io.WriteString(c, "x")
			}
			c.Read(make([]byte, 1))
		})
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://api.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if string(data) != "xxxxxxxx" {
			t.Fatalf("got %q", data)
		}
		wantKind(t, err, Stalled)
		// A deadline is set anew a little after the wait began, not at each read.
		if took := time.Since(began); took < 81*time.Second || took > 92*time.Second {
			t.Errorf("cut after %v", took)
		}
	})
}
