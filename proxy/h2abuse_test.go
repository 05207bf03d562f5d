package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// abuser writes raw HTTP/2 frames inside an intercepted CONNECT.
type abuser struct {
	*http2.Framer
	conn net.Conn
	head bytes.Buffer
	enc  *hpack.Encoder
}

func (b *testProxy) abuse(settings ...http2.Setting) *abuser {
	b.t.Helper()
	conn := b.secure(b.connect(host+":443"), host, "h2")
	_, err := io.WriteString(conn, http2.ClientPreface)
	must(b.t, err)
	a := &abuser{Framer: http2.NewFramer(conn, conn), conn: conn}
	a.enc = hpack.NewEncoder(&a.head)
	must(b.t, a.WriteSettings(settings...))
	return a
}

func (a *abuser) request(path string) []byte {
	a.head.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", host}, {":path", path}} {
		a.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return a.head.Bytes()
}

// readUntil reads frames until the connection ends or until accepts a frame.
func (a *abuser) readUntil(until func(http2.Frame) bool) error {
	for {
		f, err := a.ReadFrame()
		if err != nil {
			return err
		}
		if until != nil && until(f) {
			return nil
		}
	}
}

// stillServes checks that other clients are still served.
func (b *testProxy) stillServes() {
	b.t.Helper()
	resp, _, err := protocolClients[2].fetch(b, "GET", "/after", nil)
	must(b.t, err)
	if resp.StatusCode != http.StatusOK {
		b.t.Errorf("another client was told %d", resp.StatusCode)
	}
}

func TestRapidResetIsBounded(t *testing.T) {
	b := newTestProxy(t, "intercept: all")
	a := b.abuse()
	broke := make(chan error, 1)
	go func() { broke <- a.readUntil(nil) }()
	var err error
	sent := 0
	for id := uint32(1); id < 40_000 && err == nil; id += 2 {
		err = a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a.request("/"), EndStream: true, EndHeaders: true})
		if err == nil {
			err = a.WriteRSTStream(id, http2.ErrCodeCancel)
			sent++
		}
	}
	a.conn.Close()
	<-broke
	if n := b.served.Load(); n > int64(sent)/2+1000 {
		t.Errorf("%d of %d reset requests reached the origin", n, sent)
	}
	b.stillServes()
}

func TestFloodsEndTheConnectionAndHoldNoMemory(t *testing.T) {
	floods := []struct {
		name string
		send func(a *abuser) error
	}{
		{"CONTINUATION", func(a *abuser) error {
			if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.request("/")}); err != nil {
				return err
			}
			a.head.Reset()
			for i := range 100 {
				a.enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: "v"})
			}
			for range 100_000 {
				if err := a.WriteContinuation(1, false, a.head.Bytes()); err != nil {
					return err
				}
			}
			return nil
		}},
		{"HPACK bomb", func(a *abuser) error {
			a.request("/")
			big := bytes.Repeat([]byte("a"), 3000)
			a.enc.WriteField(hpack.HeaderField{Name: "x-bomb", Value: string(big)})
			for range 100_000 {
				a.enc.WriteField(hpack.HeaderField{Name: "x-bomb", Value: string(big)}) // each is sent in one byte
			}
			block := a.head.Bytes()
			first := true
			for len(block) > 0 {
				n := min(len(block), 16<<10)
				var err error
				if first {
					err = a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: true})
				} else {
					err = a.WriteContinuation(1, n == len(block), block[:n])
				}
				if err != nil {
					return err
				}
				first, block = false, block[n:]
			}
			return nil
		}},
		{"SETTINGS", func(a *abuser) error {
			for range 200_000 {
				if err := a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"PING", func(a *abuser) error {
			for range 200_000 {
				if err := a.WritePing(false, [8]byte{}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"initial windows back and forth", func(a *abuser) error {
			for i := range uint32(100) {
				if err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: a.request("/"), EndStream: true, EndHeaders: true}); err != nil {
					return err
				}
			}
			for i := range uint32(50_000) {
				if err := a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i % 2 * 1000}); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			b := newTestProxy(t, "intercept: all", "timeouts: {stall: 1s, idle: 2s}")
			peak := watchHeap(t)
			a := b.abuse()
			// It never reads: what the server has to say piles up on its side.
			a.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			err := f.send(a)
			a.conn.Close()
			t.Logf("the flood ended with %v", err)
			if grown := peak(); grown > 64<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			b.stillServes()
		})
	}
}

func TestAWindowOfZeroIsCut(t *testing.T) {
	b := newTestProxy(t, "intercept: all", "timeouts: {stall: 500ms}")
	gone := make(chan struct{})
	b.handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/big" {
			return
		}
		defer close(gone)
		piece := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	a := b.abuse(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	must(t, a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.request("/big"), EndStream: true, EndHeaders: true}))
	go a.readUntil(nil)
	select {
	case <-gone:
	case <-time.After(5 * time.Minute):
		t.Error("the origin is still held by a client that takes nothing")
	}
	b.stillServes()
}
