package upstream

import (
	"bytes"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestFramesThatBringNothingEndTheWait holds that a client that waits for an answer is
// told at once when its origin sends header blocks without end, or nothing of use.
func TestFramesThatBringNothingEndTheWait(t *testing.T) {
	for _, name := range []string{"empty CONTINUATION", "SETTINGS", "PING", "WINDOW_UPDATE", "PRIORITY"} {
		t.Run(name, func(t *testing.T) {
			tr, f := framed(t, nil, func(c *frameConn) {
				stream := c.next()
				go io.Copy(io.Discard, c.nc)
				if name == "empty CONTINUATION" {
					c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}})
				}
				for hostilities[name](c, stream) == nil {
				}
			})
			tr.AnswerTimeout = time.Hour
			resp, err := tr.RoundTrip(newRequest(t, "GET", f.url, nil))
			if err == nil {
				resp.Body.Close()
			}
			if KindOf(err) != Protocol {
				t.Errorf("%v", unwrapped(err))
			}
		})
	}
}

// TestFramesOfAnHonestOriginAreSpared holds that by the frames that origins send which
// mean no harm.
func TestFramesOfAnHonestOriginAreSpared(t *testing.T) {
	now := time.Now()
	write := func(do func(*http2.Framer)) []byte {
		var b bytes.Buffer
		do(http2.NewFramer(&b, nil))
		return b.Bytes()
	}
	reset := func(w *floodGuard, stream uint32) {
		w.wrote(write(func(f *http2.Framer) { f.WriteRSTStream(stream, http2.ErrCodeCancel) }))
	}
	opened := func(stream uint32) *floodGuard {
		w := newFloodGuard(func() time.Time { return now })
		w.wrote([]byte(http2.ClientPreface))
		w.wrote(write(func(f *http2.Framer) {
			f.WriteSettings()
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x82}, EndHeaders: true})
		}))
		return w
	}
	t.Run("two updates for each KiB of an upload", func(t *testing.T) {
		w := opened(1)
		for range 100_000 {
			w.wrote(write(func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 1<<10)) }))
			must2(t, w.read(write(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1<<10); f.WriteWindowUpdate(1, 1<<10) })))
		}
	})
	t.Run("50 pings a second for an hour", func(t *testing.T) {
		w := opened(1)
		for range 50 * 3600 {
			now = now.Add(time.Second / 50)
			must2(t, w.read(write(func(f *http2.Framer) { f.WritePing(false, [8]byte{}) })))
		}
	})
	t.Run("long headers of an answer without a body", func(t *testing.T) {
		w := opened(1)
		must2(t, w.read(write(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 16<<10), EndStream: true})
			for n := range 40 {
				f.WriteContinuation(1, n == 39, make([]byte, 16<<10))
			}
		})))
	})
	t.Run("a byte at a time", func(t *testing.T) {
		w := opened(1)
		for range 100_000 {
			must2(t, w.read(write(func(f *http2.Framer) { f.WriteData(1, false, []byte("x")) })))
		}
	})
	t.Run("answers that were given up come in full windows", func(t *testing.T) {
		w := opened(1)
		for stream := uint32(3); stream < 201; stream += 2 {
			w.wrote(write(func(f *http2.Framer) {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x82}, EndHeaders: true, EndStream: true})
			}))
			reset(w, stream)
			must2(t, w.read(write(func(f *http2.Framer) {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}, EndHeaders: true})
			})))
			for sent := 0; sent < streamBuffer; sent += 16 << 10 {
				must2(t, w.read(write(func(f *http2.Framer) { f.WriteData(stream, false, make([]byte, 16<<10)) })))
			}
		}
	})
	t.Run("but not more of them", func(t *testing.T) {
		w := opened(1)
		reset(w, 1)
		piece, n := write(func(f *http2.Framer) { f.WriteData(1, false, make([]byte, 16<<10)) }), 0
		for w.read(piece) == nil {
			n += 16 << 10
		}
		if n > maxAbandonedBytes {
			t.Errorf("%d bytes", n)
		}
	})
}

func must2(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzFrameHeads holds that frames are found in whatever pieces they come.
func FuzzFrameHeads(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 'x', 0, 0, 0, 6, 1, 0, 0, 0, 0}, uint8(3))
	f.Fuzz(func(t *testing.T, all []byte, step uint8) {
		whole := headsIn(all, len(all)+1)
		if pieces := headsIn(all, int(step)+1); !bytes.Equal(whole, pieces) {
			t.Errorf("%x in one piece, %x in pieces of %d", whole, pieces, step+1)
		}
	})
}

func headsIn(all []byte, step int) (heads []byte) {
	var h frameHeads
	for len(all) > 0 {
		piece := all[:min(step, len(all))]
		all = all[len(piece):]
		for ok := true; ok; {
			if piece, ok = h.next(piece); ok {
				heads = append(heads, h.head[:]...)
			}
		}
	}
	return heads
}
