package proxy

import (
	"io"
	"net/http"
	"sync"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// smallCopy and largeCopy are the sizes of the buffers that a body is copied through. A body
// begins with a small buffer, the size of a TLS record, because a body that waits keeps its
// buffer. A body that fills the buffer gets a large one, which saves three writes of four.
const (
	smallCopy = 16 << 10
	largeCopy = 64 << 10
)

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallCopy); return &b }}
	largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeCopy); return &b }}
)

// download is a response's body. io.Copy in goproxy finds WriteTo, so that download copies
// itself: bytes are flushed as they arrive, and a body that breaks off in the middle breaks
// off for the client too.
type download struct {
	body   io.ReadCloser
	writer *responseWriter
	left   int64 // announced bytes that were not read yet; negative: unknown
	total  int64 // bytes that were read
}

func (d *download) Read(p []byte) (int, error) { return d.body.Read(p) }
func (d *download) Close() error               { return d.body.Close() }

func (d *download) WriteTo(io.Writer) (total int64, err error) {
	pool := &smallBuffers
	if d.left > smallCopy {
		pool = &largeBuffers
	}
	buffer := pool.Get().(*[]byte)
	defer func() { pool.Put(buffer) }()
	change := func(to *sync.Pool) {
		pool.Put(buffer)
		pool = to
		buffer = pool.Get().(*[]byte)
	}
	for {
		n, readErr := d.body.Read(*buffer)
		d.total += int64(n)
		if n > 0 {
			if d.left >= 0 {
				d.left -= int64(n)
			}
			wrote, err := d.writer.Write((*buffer)[:n])
			total += int64(wrote)
			if err != nil {
				d.writer.broke = upstream.Canceled
				return total, err
			}
			// The last bytes are sent with the end of the response. Earlier bytes
			// are sent at once, unless more have already come.
			if readErr == nil && d.left != 0 && n < len(*buffer) {
				d.writer.Flush()
			}
		}
		switch readErr {
		case nil:
			if n == len(*buffer) && pool == &smallBuffers {
				change(&largeBuffers)
			} else if n < smallCopy && pool == &largeBuffers {
				change(&smallBuffers)
			}
		case io.EOF:
			return total, nil
		default:
			// A return would end the chunked body as if it were complete.
			d.writer.broke = upstream.KindOf(readErr)
			panic(http.ErrAbortHandler)
		}
	}
}
