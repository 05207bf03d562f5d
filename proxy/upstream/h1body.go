package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	errChunkSize = malformedAnswer("a chunk size is not a hexadecimal number")
	errChunkEnd  = malformedAnswer("a chunk does not end where its size says")
	errChunkLine = malformedAnswer("a chunk line is too long or does not end in CR LF")
	errChunkFat  = malformedAnswer("the chunks are mostly not data")
)

var errBodyClosed = errors.New("read of a closed answer body")

// untilClose is the length of a body that ends when the connection is closed.
const untilClose = -1

// body is the body of an HTTP/1 answer. One goroutine reads it; Close may be called from
// another. At the last byte the connection goes back to the pool.
type body struct {
	mu      sync.Mutex // held by Read, and by Close while it releases the connection
	closing atomic.Bool

	conn        *conn
	ctx         context.Context
	stopContext func() bool // stops the context from closing the connection
	resp        *http.Response
	upload      *upload // the request's body, if it is sent while the answer is read

	remaining int64 // bytes left of the body or of the chunk; or untilClose
	chunked   bool
	inChunk   bool  // the CR LF after a chunk's data is still to be read
	overhead  int64 // bytes of chunk framing beyond the allowed share

	reuse    bool // the head allows another request on this connection
	released bool // the connection was given back or closed
	err      error
}

func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing.Load():
		return 0, errBodyClosed
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	case b.chunked:
		n, err = b.readChunked(p)
	default:
		n, err = b.readPlain(p)
	}
	if err != nil {
		b.err = b.finish(err)
		return n, b.err
	}
	return n, nil
}

func (b *body) readPlain(p []byte) (int, error) {
	if b.remaining == 0 {
		return 0, io.EOF
	}
	if b.remaining == untilClose {
		return b.conn.br.Read(p)
	}
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	buffered := b.conn.br.Buffered() > 0
	n, err := b.conn.br.Read(p)
	if buffered && int64(n) < b.remaining && len(p)-n >= bufferSize {
		// The buffer has only the beginning of a larger body. Most of the rest has arrived
		// by now, and one larger write to the client is cheaper than two.
		n += b.conn.readAvailable(p[n:min(int64(len(p)), b.remaining)])
	}
	b.remaining -= int64(n)
	switch {
	case b.remaining == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readChunked fills p from as many chunks as have arrived. It blocks for the first byte
// only.
func (b *body) readChunked(p []byte) (n int, err error) {
	for {
		if b.remaining == 0 {
			if n > 0 && !b.chunkBuffered() {
				return n, nil
			}
			if err := b.nextChunk(); err != nil {
				return n, notYetEOF(err)
			}
			if b.remaining == 0 {
				if err := b.readTrailers(); err != nil {
					return n, notYetEOF(err)
				}
				return n, io.EOF
			}
		}
		if n == len(p) || n > 0 && b.conn.br.Buffered() == 0 {
			return n, nil
		}
		want := p[n:]
		if int64(len(want)) > b.remaining {
			want = want[:b.remaining]
		}
		got, err := b.conn.br.Read(want)
		n += got
		b.remaining -= int64(got)
		if b.remaining == 0 && got > 0 {
			b.inChunk = true
			err = nil // the next read returns it again
		}
		if err != nil {
			return n, notYetEOF(err)
		}
	}
}

func notYetEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// chunkBuffered tells whether the next chunk's line, and the end of the body if that chunk
// is the last, can be read without blocking.
func (b *body) chunkBuffered() bool {
	next, _ := b.conn.br.Peek(b.conn.br.Buffered())
	if b.inChunk {
		if len(next) < 2 {
			return false
		}
		next = next[2:]
	}
	if len(next) > 0 && next[0] == '0' {
		return bytes.HasPrefix(next, []byte("0\r\n\r\n"))
	}
	return bytes.IndexByte(next, '\n') >= 0
}

// nextChunk reads the end of one chunk, and the size of the next chunk into remaining.
func (b *body) nextChunk() error {
	br := b.conn.br
	if b.inChunk {
		end, err := br.Peek(2)
		if err != nil {
			return err
		}
		if end[0] != '\r' || end[1] != '\n' {
			return errChunkEnd
		}
		br.Discard(2)
		b.inChunk = false
	}
	line, err := br.ReadSlice('\n')
	if err != nil {
		if len(line) == br.Size() {
			return errChunkLine
		}
		return err
	}
	if b.remaining, err = parseChunkLine(line); err != nil {
		return err
	}
	// Each chunk may have 16 bytes of overhead, plus as many as its data. Overhead beyond
	// that is added up, so that a body cannot consist of framing without end.
	b.overhead = max(b.overhead+int64(len(line))+2-16-min(b.remaining, 1<<40), 0)
	if b.overhead > 16<<10 {
		return errChunkFat
	}
	return nil
}

// parseChunkLine reads "1a;name=value\r\n".
func parseChunkLine(line []byte) (size int64, err error) {
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return 0, errChunkLine
	}
	digits, rest := line[:len(line)-2], []byte(nil)
	if i := bytes.IndexAny(digits, " \t;"); i >= 0 {
		// Some servers pad the size with spaces. They are harmless before the line's end.
		digits, rest = digits[:i], bytes.TrimLeft(digits[i:], " \t")
	}
	n, err := strconv.ParseUint(string(digits), 16, 63) // which takes digits only
	if err != nil || len(digits) > 16 || len(rest) > 0 && rest[0] != ';' {
		return 0, errChunkSize
	}
	for _, c := range rest {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, errChunkLine
		}
	}
	return int64(n), nil
}

func (b *body) readTrailers() error {
	text, lines, err := readHead(b.conn.br, maxHeadBytes, false)
	if err != nil || lines == 0 {
		return err
	}
	trailer, err := parseFields(text, lines, nil)
	if err != nil {
		return err
	}
	maps.DeleteFunc(trailer, func(name string, _ []string) bool { return !allowedTrailer(name) })
	if b.resp.Trailer == nil {
		b.resp.Trailer = trailer
	} else {
		maps.Copy(b.resp.Trailer, trailer)
	}
	return nil
}

// Close ends the exchange. It does not wait for unread bytes: unless the rest is in the
// buffer, the connection is closed.
func (b *body) Close() error {
	if b.closing.Swap(true) {
		return nil
	}
	if !b.mu.TryLock() {
		b.conn.abort() // ends the Read that holds the lock
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if b.released && b.upload == nil {
		return nil
	}
	if !b.released && !b.chunked && b.remaining > 0 && int64(b.conn.br.Buffered()) == b.remaining {
		b.conn.br.Discard(int(b.remaining))
		b.finish(io.EOF)
	}
	if !b.released {
		b.release(false)
	}
	if b.upload != nil {
		b.upload.cancel(b.conn)
		b.upload = nil
	}
	return nil
}

// finish is called once, at the end of the body or at its first error.
func (b *body) finish(err error) error {
	if err == io.EOF {
		b.release(b.reuse)
		return io.EOF
	}
	if b.upload != nil {
		err = b.upload.blame(err, false)
	}
	cut := errors.Is(err, io.ErrUnexpectedEOF) && b.ctx.Err() == nil
	e := b.conn.fail(b.ctx, Stalled, err)
	b.conn.aborted.Store(true)
	b.release(false)
	if cut {
		return io.ErrUnexpectedEOF
	}
	return e
}

// release gives the connection back to the pool, or closes it.
func (b *body) release(reuse bool) {
	b.released = true
	if b.upload != nil {
		if b.upload.wait() {
			reuse = reuse && b.upload.complete()
			b.upload = nil
		} else {
			// The upload continues until Close, which ends it together with the connection.
			b.stopContext()
			b.conn.releaseReader()
			return
		}
	}
	b.conn.release(b.stopContext, reuse)
}

// release ends a request on the connection: it goes back to the pool or is closed.
func (c *conn) release(stop func() bool, reuse bool) {
	if !stop() {
		reuse = false
	}
	if reuse && !c.noReuse && c.readErr == nil && c.br.Buffered() == 0 && !c.aborted.Load() &&
		(c.state == nil || c.noTLSData()) {
		c.idle()
		c.t.pool.put(c)
		return
	}
	c.releaseReader()
	c.close()
}
