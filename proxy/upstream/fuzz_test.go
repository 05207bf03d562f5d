package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http/httpguts"
)

var headSeeds = []string{
	ok5,
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X, Y\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
	"HTTP/1.0 404\r\nConnection: keep-alive, x\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 \x00\r\n\r\n", "\r\n", "HTTP/1.", "",
	"HTTP/1.1 304 Not Modified\r\nX:" + strings.Repeat(" ", 5000) + "y\r\n\r\n",
}

// FuzzHead holds that a head reads the same in whatever pieces it comes, that
// nothing unsafe is in what is believed, and that http.ReadResponse believes
// it too.
func FuzzHead(f *testing.F) {
	for _, s := range headSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(r io.Reader) (head, error) {
			br := bufio.NewReaderSize(r, 64) // most heads are long for it
			text, lines, err := readHead(br, 8<<10, true)
			if err != nil {
				return head{}, err
			}
			return parseHead(text, lines)
		}
		h, err := read(bytes.NewReader(data))
		if again, otherErr := read(iotest.OneByteReader(bytes.NewReader(data))); (err == nil) != (otherErr == nil) || again.status != h.status || len(again.header) != len(h.header) {
			t.Fatalf("in one piece %v %v, byte by byte %v %v", h, err, again, otherErr)
		}
		if err != nil {
			return
		}
		if h.code < 100 || h.code > 999 || h.chunked && h.length >= 0 {
			t.Fatalf("%+v", h)
		}
		for name, values := range h.header {
			if !httpguts.ValidHeaderFieldName(name) || http.CanonicalHeaderKey(name) != name || len(values) == 0 {
				t.Fatalf("name %q", name)
			}
			for _, v := range values {
				if !httpguts.ValidHeaderFieldValue(v) || strings.ContainsAny(v, "\r\n\x00") {
					t.Fatalf("value %q", v)
				}
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), &http.Request{Method: "HEAD"})
		if err != nil {
			t.Fatalf("http.ReadResponse: %v", err)
		}
		if resp.StatusCode != h.code || (h.length >= 0) != (resp.ContentLength >= 0) || h.length >= 0 && h.length != resp.ContentLength {
			t.Fatalf("%d %d, but http.ReadResponse %d %d", h.code, h.length, resp.StatusCode, resp.ContentLength)
		}
	})
}

var chunkSeeds = []string{
	"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "3;a=b\r\nabc\r\nA \r\n0123456789\r\n0\r\nX: y\r\n\r\n", "5\r\nhel", "zz\r\n", "5\nhello\r\n",
	"8000000000000000\r\n", "00000000000000001\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", strings.Repeat("1\r\na\r\n", 100) + "0\r\n\r\n",
}

// FuzzChunks holds that a chunked body reads the same however it comes and is
// read, that it ends without an error only at its end, and that what is read
// is what net/http reads.
func FuzzChunks(f *testing.F) {
	for _, s := range chunkSeeds {
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		read := func(r io.Reader, size int) (string, http.Header, error) {
			b := &body{ctx: context.Background(), chunked: true, resp: &http.Response{}}
			b.conn = &conn{t: &Transport{}, br: bufio.NewReaderSize(r, 64)}
			var all []byte
			p := make([]byte, size)
			for {
				n, err := b.readChunked(p)
				all = append(all, p[:n]...)
				if err == io.EOF {
					return string(all), b.resp.Trailer, nil
				}
				if err != nil {
					return string(all), nil, err
				}
			}
		}
		got, trailer, err := read(bytes.NewReader(data), int(size)+1)
		again, _, otherErr := read(iotest.OneByteReader(bytes.NewReader(data)), 512)
		if (err == nil) != (otherErr == nil) || got != again {
			t.Fatalf("%q %v, then %q %v", got, err, again, otherErr)
		}
		if err != nil {
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(
			strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(data))), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(resp.Body)
		if err != nil || string(want) != got {
			t.Fatalf("%q, but net/http %q, %v", got, want, err)
		}
		for name := range trailer {
			if !allowedTrailer(name) {
				t.Fatalf("trailer %q", name)
			}
		}
	})
}
