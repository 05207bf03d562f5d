package upstream

import (
	"bufio"
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
	length  int64 // -1: chunked
	trailer func() http.Header
	closing sync.Once

	mu       sync.Mutex
	answered bool // the answer's head has arrived: the read deadline is the answer body's now

	done chan struct{}
	// The fields below are valid after done is closed.
	complete bool  // all of it was sent
	readErr  error // error of reading the body
	writeErr error // error of writing it

	closesConn atomic.Bool // run must close the connection
}

func startUpload(c *conn, o *outgoing) *upload {
	u := &upload{c: c, body: o.body, length: o.length, done: make(chan struct{})}
	o.bodyTaken = true
	if o.length < 0 {
		req := o.req
		u.trailer = func() http.Header { return req.Trailer }
	}
	go u.run()
	return u
}

func (u *upload) run() {
	defer u.end()
	defer u.closeBody()
	bp := uploadBuffers.Get().(*[uploadBuffer]byte)
	defer uploadBuffers.Put(bp)

	var err error
	if u.length < 0 {
		err = u.sendChunked(bp)
	} else {
		err = u.sendPlain(bp[:])
	}
	var bad *requestBodyError
	switch {
	case err == nil:
		u.complete = true
		u.expectAnswer(u.c.t.AnswerTimeout)
	case errors.As(err, &bad):
		u.readErr = bad
		u.c.abort() // otherwise the origin would wait for the rest
	case budgetErrorOf(err) != nil:
		u.writeErr = err
		u.c.abort() // reading an answer would need credit, too
	default:
		u.writeErr = err
		u.expectAnswer(answerGrace)
	}
}

func (u *upload) end() {
	close(u.done)
	if u.closesConn.Load() {
		u.c.close()
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

func (u *upload) sendPlain(buf []byte) error {
	for left := u.length; left > 0; {
		n, err := u.body.Read(buf[:min(left, int64(len(buf)))])
		if n > 0 {
			if err := u.write(buf[:n]); err != nil {
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
	n, err := u.body.Read(buf[:1])
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
			if err := u.write(buf[start : end+2]); err != nil {
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
	for name, values := range u.trailer() {
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
	return u.write(append(last, "\r\n"...))
}

func (u *upload) write(p []byte) error {
	if d := u.c.t.StallTimeout; d > 0 {
		u.c.expectWrite(d)
	}
	_, err := u.c.nc.Write(p)
	return err
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

// readFailure is the requestBodyError that ended the upload, or nil.
func (u *upload) readFailure() error {
	if u.wait() && u.readErr != nil {
		return u.readErr
	}
	return nil
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

// sendInline writes a small body that is in memory behind the head.
func sendInline(w *bufio.Writer, o *outgoing) error {
	o.bodyTaken = true
	defer o.body.Close()
	n, err := io.CopyN(w, o.body, o.length)
	if err != nil {
		if n < o.length && err == io.EOF {
			err = errBodyShort
		}
		return &requestBodyError{err}
	}
	if n, _ := o.body.Read(make([]byte, 1)); n > 0 {
		return &requestBodyError{errBodyLong}
	}
	return nil
}

// budgetError is the error of the byte limit that ended the upload, or nil.
func (u *upload) budgetError() error {
	select {
	case <-u.done:
		if e := budgetErrorOf(u.writeErr); e != nil {
			return e
		}
	default:
	}
	return nil
}

// stalled tells whether the origin stopped reading the body.
func (u *upload) stalled() bool {
	var timeout net.Error
	return u.wait() && errors.As(u.writeErr, &timeout) && timeout.Timeout()
}
