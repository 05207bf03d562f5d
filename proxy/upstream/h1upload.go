package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errBodyLong  = errors.New("longer than its Content-Length")
	errBodyShort = fmt.Errorf("shorter than its Content-Length: %w", io.ErrUnexpectedEOF)
)

// inlineBody is the size in bytes up to which a body in memory is written together with the
// head, in one write. A body with GetBody is in memory, so reading it does not block.
const inlineBody = 2 << 10

const (
	uploadBuffer = 32 << 10
	// answerGrace bounds the time in which an origin that stopped reading the body, or ended its
	// answer, must send the rest.
	answerGrace   = 5 * time.Second
	uploadEndWait = 50 * time.Millisecond
)

var uploadBuffers = sync.Pool{New: func() any { return new([uploadBuffer]byte) }}

// upload sends a request body on a goroutine of its own while the answer is read.
type upload struct {
	c       *conn
	body    io.ReadCloser
	length  int64         // -1: chunked
	req     *http.Request // whose trailers follow a chunked body
	closing sync.Once

	mu       sync.Mutex
	answered bool // the answer's head has arrived: the read deadline is the answer body's now

	done chan struct{}
	err  error // of reading the body or of writing it; valid after done is closed

	closesConn atomic.Bool // run must close the connection
}

func (u *upload) run() {
	defer func() {
		u.closeBody()
		close(u.done)
		if u.closesConn.Load() {
			u.c.close()
		}
	}()
	bp := uploadBuffers.Get().(*[uploadBuffer]byte)
	defer uploadBuffers.Put(bp)

	if u.length < 0 {
		u.err = u.sendChunked(bp)
	} else {
		u.err = sendPlain(u, u.body, u.length, bp[:])
	}
	var bad *requestBodyError
	switch {
	case u.err == nil:
		u.expectAnswer(u.c.t.AnswerTimeout)
	case errors.As(u.err, &bad), budgetErrorOf(u.err) != nil:
		u.c.abort() // the origin would wait for the rest, and reading an answer would need credit, too
	default:
		u.expectAnswer(answerGrace)
	}
}

// expectAnswer starts the timeout of the answer's head, unless the head has arrived.
func (u *upload) expectAnswer(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.answered {
		u.c.expectRead(d)
	}
}

// answerStarted records that the answer's head has arrived.
func (u *upload) answerStarted() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answered = true
}

// sendPlain copies a body of a known length.
func sendPlain(w io.Writer, body io.Reader, length int64, buf []byte) error {
	for left := length; left > 0; {
		n, err := body.Read(buf[:min(left, int64(len(buf)))])
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			left -= int64(n)
		}
		if left == 0 {
			break
		}
		if err == io.EOF {
			err = errBodyShort
		}
		if err != nil {
			return &requestBodyError{err}
		}
	}
	// The reader may have more bytes than announced, or may do work at its end.
	n, err := body.Read(buf[:1])
	switch {
	case n > 0:
		return &requestBodyError{errBodyLong}
	case err != nil && err != io.EOF:
		return &requestBodyError{err}
	}
	return nil
}

// sendChunked leaves space before the data for the chunk's size, so that a chunk is one
// write.
func (u *upload) sendChunked(buf *[uploadBuffer]byte) error {
	const room = 6 // "7ff8\r\n"
	for {
		n, err := u.body.Read(buf[room : len(buf)-2])
		if n > 0 {
			var digits [room]byte
			size := append(strconv.AppendInt(digits[:0], int64(n), 16), '\r', '\n')
			start := room - len(size)
			copy(buf[start:], size)
			end := room + n
			buf[end], buf[end+1] = '\r', '\n'
			if _, err := u.Write(buf[start : end+2]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return &requestBodyError{err}
		}
	}
	last := []byte("0\r\n")
	for name, values := range u.req.Trailer {
		if !allowedTrailer(name) {
			continue
		}
		if checkFields(http.Header{name: values}) != nil {
			return &requestBodyError{errField}
		}
		for _, v := range values {
			last = append(append(append(append(last, name...), ": "...), v...), "\r\n"...)
		}
	}
	_, err := u.Write(append(last, "\r\n"...))
	return err
}

// Write writes a piece of the body to the connection.
func (u *upload) Write(p []byte) (int, error) {
	if d := u.c.t.StallTimeout; d > 0 {
		u.c.expectWrite(d)
	}
	return u.c.nc.Write(p)
}

func (u *upload) closeBody() { u.closing.Do(func() { u.body.Close() }) }

// wait tells whether the upload has ended. The last write races with this call, so wait
// gives it uploadEndWait.
func (u *upload) wait() bool {
	select {
	case <-u.done:
		return true
	case <-time.After(uploadEndWait):
		return false
	}
}

// complete tells whether all of the body has been sent.
func (u *upload) complete() bool { return u.wait() && u.err == nil }

// blame returns what ended the upload, if an exchange that failed with err has failed by
// that, and err otherwise. cut tells that the connection failed before the answer's head.
func (u *upload) blame(err error, cut bool) error {
	if !u.wait() {
		return err
	}
	var bad *requestBodyError
	var timeout net.Error
	switch {
	case errors.As(u.err, &bad), budgetErrorOf(u.err) != nil:
		return u.err
	case cut && errors.As(u.err, &timeout) && timeout.Timeout():
		return &Error{Kind: Stalled, Err: u.err} // the origin stopped reading the body
	}
	return err
}

// cancel ends the upload together with the connection. Closing the body should unblock its
// Read; then the goroutine has ended when cancel returns. Otherwise the goroutine closes
// the connection later, and Transport.Close waits for it.
func (u *upload) cancel(c *conn) {
	c.abort()
	go u.closeBody() // run waits for the end of it
	if !u.wait() {
		u.closesConn.Store(true)
	}
	select {
	case <-u.done:
		c.close()
	default:
	}
}
