package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	errChunkSize = malformed("a chunk size is not a hexadecimal number")
	errChunkEnd  = malformed("a chunk does not end where its size says")
	errChunkLine = malformed("a chunk line is too long or does not end in CR LF")
	errChunkFat  = malformed("the chunks are mostly not data")
)

var errBodyClosed = errors.New("read of a closed answer body")

// untilClose is the length of a body that ends with its connection.
const untilClose = -1

// body is an HTTP/1 answer's body. One goroutine reads it; Close may come from
// another. The connection goes back to the pool at the body's last byte.
type body struct {
	mu      sync.Mutex // held by Read and by what Close does to the connection
	closing atomic.Bool

	c    *conn
	ctx  context.Context
	stop func() bool // takes the context's hand off the connection
	resp *http.Response
	up   *upload // the request's body, when it was sent beside the answer

	left    int64 // of the body, or of the chunk; untilClose
	chunked bool
	inChunk bool  // the CR LF after a chunk's data is still to come
	excess  int64 // bytes that were framing rather than data

	reuse bool // the head allows another request on this connection
	done  bool // the connection has been given away or closed
	err   error
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
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left == untilClose {
		return b.c.br.Read(p)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	buffered := b.c.br.Buffered() > 0
	n, err := b.c.br.Read(p)
	if buffered && int64(n) < b.left && len(p)-n >= bufferSize {
		// What came with the head is the first bit of more. Most of that is here
		// by now, and is worth one write to the client instead of two.
		n += b.c.more(p[n:min(int64(len(p)), b.left)])
	}
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readChunked fills p from as many chunks as are at hand, and waits only for
// the first byte.
func (b *body) readChunked(p []byte) (n int, err error) {
	for {
		if b.left == 0 {
			if n > 0 && !b.chunkAtHand() {
				return n, nil
			}
			if err := b.nextChunk(); err != nil {
				return n, notYetEOF(err)
			}
			if b.left == 0 {
				if err := b.readTrailers(); err != nil {
					return n, notYetEOF(err)
				}
				return n, io.EOF
			}
		}
		if n == len(p) || n > 0 && b.c.br.Buffered() == 0 {
			return n, nil
		}
		want := p[n:]
		if int64(len(want)) > b.left {
			want = want[:b.left]
		}
		got, err := b.c.br.Read(want)
		n += got
		b.left -= int64(got)
		if b.left == 0 && got > 0 {
			b.inChunk = true
			err = nil // what comes next says it again
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

// chunkAtHand tells whether the next chunk's line, and the end of the body if
// it is the last, can be read without waiting.
func (b *body) chunkAtHand() bool {
	next, _ := b.c.br.Peek(b.c.br.Buffered())
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

// nextChunk reads the end of one chunk and the size of the next into left.
func (b *body) nextChunk() error {
	br := b.c.br
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
	if b.left, err = parseChunkLine(line); err != nil {
		return err
	}
	// A chunk may spend 16 bytes on itself and as many as it carries; what
	// goes beyond is added up, so that a body cannot be framing without end.
	b.excess = max(b.excess+int64(len(line))+2-16-min(b.left, 1<<40), 0)
	if b.excess > 16<<10 {
		return errChunkFat
	}
	return nil
}

// parseChunkLine reads "1a;name=value\r\n".
func parseChunkLine(line []byte) (size int64, err error) {
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return 0, errChunkLine
	}
	line = line[:len(line)-2]
	digits := 0
	for ; digits < len(line); digits++ {
		v := unhex(line[digits])
		if v < 0 {
			break
		}
		if digits == 16 || size > (1<<63-1)>>4 {
			return 0, errChunkSize
		}
		size = size<<4 | int64(v)
	}
	if digits == 0 {
		return 0, errChunkSize
	}
	// Some servers pad the size with spaces. They are harmless before the line's end.
	rest := bytes.TrimLeft(line[digits:], " \t")
	if len(rest) > 0 && rest[0] != ';' {
		return 0, errChunkSize
	}
	for _, c := range rest {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, errChunkLine
		}
	}
	return size, nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (b *body) readTrailers() error {
	text, lines, err := readHead(b.c.br, b.c.t.headerBytes(), false)
	if err != nil || lines == 0 {
		return err
	}
	trailer, err := parseFields(string(text), lines, nil)
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

// Close ends the exchange. What has not been read is not waited for: unless it
// lies in the buffer already, the connection is closed.
func (b *body) Close() error {
	if b.closing.Swap(true) {
		return nil
	}
	if !b.mu.TryLock() {
		b.c.abort() // frees the Read that holds it
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if b.done && b.up == nil {
		return nil
	}
	if !b.done && !b.chunked && b.left > 0 && int64(b.c.br.Buffered()) == b.left {
		b.c.br.Discard(int(b.left))
		b.finish(io.EOF)
	}
	if !b.done {
		b.release(false)
	}
	if b.up != nil {
		b.up.cancel(b.c)
		b.up = nil
	}
	return nil
}

// finish is called once, at the end of the body or with what broke it.
func (b *body) finish(err error) error {
	if err == io.EOF {
		b.release(b.reuse)
		return io.EOF
	}
	if b.up != nil {
		if bad := b.up.readFailure(); bad != nil {
			err = &Error{Kind: Upload, Sent: true, Err: bad}
		} else if still := b.up.still(); still != nil {
			err = still
		}
	}
	cut := errors.Is(err, io.ErrUnexpectedEOF) && b.ctx.Err() == nil
	e := b.c.fail(b.ctx, Stalled, err)
	b.c.aborted.Store(true)
	b.release(false)
	if cut {
		return io.ErrUnexpectedEOF
	}
	return e
}

// release gives the connection back, or closes it.
func (b *body) release(reuse bool) {
	b.done = true
	if b.up != nil {
		if b.up.wait() {
			reuse = reuse && b.up.whole
			b.up = nil
		} else {
			// The upload goes on until Close, which ends it with the connection.
			if b.stop != nil {
				b.stop()
			}
			b.c.releaseReader()
			return
		}
	}
	b.c.release(b.stop, reuse)
}

// release ends a request on c: back into the pool, or closed.
func (c *conn) release(stop func() bool, reuse bool) {
	if stop != nil && !stop() {
		reuse = false
	}
	if reuse && !c.once && c.readErr == nil && c.br.Buffered() == 0 && !c.aborted.Load() &&
		(c.state == nil || c.silent()) {
		c.rest()
		c.t.pool.put(c)
		return
	}
	c.releaseReader()
	c.close()
}
