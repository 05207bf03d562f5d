package proxy

import (
	"io"
	"net/http"
	"sync"

	"github.com/abide-proxy/abide/upstream"
)

// A body is copied through a buffer of smallCopy, a TLS record, because a body
// that waits keeps its buffer; and through one of largeCopy while it keeps filling
// them, which saves three writes of four.
const (
	smallCopy = 16 << 10
	largeCopy = 64 << 10
)

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallCopy); return &b }}
	largeBuffers = sync.Pool{New: func() any { b := make([]byte, largeCopy); return &b }}
)

// download is a response's body on its way to the client. goproxy's io.Copy
// finds WriteTo, and so leaves the copying to it: bytes are flushed as they
// arrive, and a body that breaks off breaks off for the client too.
type download struct {
	body   io.ReadCloser
	writer *answerWriter
	left   int64 // announced and not yet read; negative: unknown
	total  int64 // that was read
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
				return total, err
			}
			// The last bytes leave with the end of the response. Before
			// that, what has come goes out at once, unless more is at hand.
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
			// Ending normally would turn a part into a whole: the chunked
			// framing would be closed as if all had come.
			if x := d.writer.exchange; upstream.KindOf(readErr) == upstream.Budget && x.bytes != nil {
				x.bytes.server.metrics.Refused(answerStandsStill.reason)
			}
			panic(http.ErrAbortHandler)
		}
	}
}
