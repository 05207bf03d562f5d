package proxy

import (
	"io"
	"net/http"
	"sync"
)

// copyBuffers are for response bodies. 16 KiB is a TLS record; a larger buffer
// gained nothing measurable and costs memory for each body that waits.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// download is a response's body on its way to the client. goproxy's io.Copy
// finds WriteTo, and so leaves the copying to it: bytes are flushed as they
// arrive, and a body that breaks off breaks off for the client too.
type download struct {
	body   io.ReadCloser
	writer *answerWriter
	left   int64 // announced and not yet read; negative: unknown
}

func (d *download) Read(p []byte) (int, error) { return d.body.Read(p) }
func (d *download) Close() error               { return d.body.Close() }

func (d *download) WriteTo(io.Writer) (total int64, err error) {
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	for {
		n, readErr := d.body.Read(*buffer)
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
		case io.EOF:
			return total, nil
		default:
			// Ending normally would turn a part into a whole: the chunked
			// framing would be closed as if all had come.
			panic(http.ErrAbortHandler)
		}
	}
}
