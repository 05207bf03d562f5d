package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// RequestBodyError is a failure to read the body of the request that was to be
// sent: the caller's side, not the origin's.
type RequestBodyError struct{ Err error }

func (e *RequestBodyError) Error() string { return fmt.Sprintf("reading the request body: %v", e.Err) }
func (e *RequestBodyError) Unwrap() error { return e.Err }

var (
	errBodyLong  = errors.New("longer than its Content-Length")
	errBodyShort = fmt.Errorf("shorter than its Content-Length: %w", io.ErrUnexpectedEOF)
)

// A request body that can be got again lies in memory, so reading it does not
// wait. One of up to inlineBody goes out with the head, in one write.
const inlineBody = 2 << 10

const (
	uploadBuffer = 32 << 10
	// lastWords is how long an origin that stopped taking the body, or finished
	// answering, is given to say the rest.
	lastWords  = 5 * time.Second
	uploadTail = 50 * time.Millisecond
)

var uploadBuffers = sync.Pool{New: func() any { return new([uploadBuffer]byte) }}

// upload is a request body on its way beside the answer, on a goroutine of its own.
type upload struct {
	c       *conn
	body    io.ReadCloser
	length  int64 // -1 is chunked
	trailer func() http.Header
	closing sync.Once

	mu       sync.Mutex
	answered bool // the head has come: the read deadline is the body's now

	done chan struct{}
	// After done:
	whole bool  // all of it was sent
	bad   error // what reading the body said
	err   error // what writing it said

	orphan atomic.Bool // the connection is for run to close
}

func startUpload(c *conn, o *outgoing) *upload {
	u := &upload{c: c, body: o.body, length: o.length, done: make(chan struct{})}
	o.begun = true
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
	var bad *RequestBodyError
	switch {
	case err == nil:
		u.whole = true
		u.expectAnswer(u.c.t.AnswerTimeout)
	case errors.As(err, &bad):
		u.bad = bad
		u.c.abort() // or the origin would wait for the rest
	case stillFor(err) != nil:
		u.err = err
		u.c.abort() // what the origin says would need credit too
	default:
		u.err = err
		u.expectAnswer(lastWords)
	}
}

func (u *upload) end() {
	close(u.done)
	if u.orphan.Load() {
		u.c.close()
	}
}

// expectAnswer starts the wait for the head, unless it has come already.
func (u *upload) expectAnswer(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.answered {
		u.c.expectRead(d)
	}
}

// heard says that the head has come.
func (u *upload) heard() {
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
			return &RequestBodyError{err}
		}
	}
	// The reader may have more than it promised, and may do its work at the end.
	n, err := u.body.Read(buf[:1])
	switch {
	case n > 0:
		return &RequestBodyError{errBodyLong}
	case err != nil && err != io.EOF:
		return &RequestBodyError{err}
	}
	return nil
}

// sendChunked leaves room before the data for the size, so that a chunk is one write.
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
			return &RequestBodyError{err}
		}
	}
	last := []byte("0\r\n")
	for name, values := range u.trailer() {
		if !allowedTrailer(name) {
			continue
		}
		if checkFields(http.Header{name: values}) != nil {
			return &RequestBodyError{errField}
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

// wait tells whether the upload has ended. The last write and this question
// race, so it gets a moment.
func (u *upload) wait() bool {
	select {
	case <-u.done:
		return true
	default:
	}
	timer := time.NewTimer(uploadTail)
	defer timer.Stop()
	select {
	case <-u.done:
		return true
	case <-timer.C:
		return false
	}
}

// readFailure is the RequestBodyError that ended the upload, if one did.
func (u *upload) readFailure() error {
	if u.wait() && u.bad != nil {
		return u.bad
	}
	return nil
}

// cancel ends the upload and the connection with it. The body's Close should
// free a Read, and then the goroutine has gone when cancel returns. Where it
// does not, the goroutine closes the connection when it goes, and until then
// the Transport's Close waits for it.
func (u *upload) cancel(c *conn) {
	c.abort()
	go u.closeBody() // run waits for it
	if !u.wait() {
		u.orphan.Store(true)
	}
	select {
	case <-u.done:
		c.close()
	default:
	}
}

// sendInline puts a small body in memory behind the head.
func sendInline(w *bufio.Writer, o *outgoing) error {
	o.begun = true
	defer o.body.Close()
	n, err := io.CopyN(w, o.body, o.length)
	if err != nil {
		if n < o.length && err == io.EOF {
			err = errBodyShort
		}
		return &RequestBodyError{err}
	}
	if n, _ := o.body.Read(make([]byte, 1)); n > 0 {
		return &RequestBodyError{errBodyLong}
	}
	return nil
}
