package dispatch

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// mostPeek is how much of a body is looked at.
	mostPeek = 4 << 10
	// longestPeek is how long that is waited for: the client wants the head.
	longestPeek = time.Second
)

// headOf is the beginning of a body, which stays whole; what has not come in time is
// not in it. What is compressed in a way that everybody knows is read. The answer is
// to be used in place of the one that was given.
func headOf(resp *http.Response) (*http.Response, []byte) {
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength == 0 {
		return resp, nil
	}
	switch kind := resp.Header.Get("Content-Type"); {
	case kind == "", strings.HasPrefix(kind, "text/") && !strings.HasPrefix(kind, "text/event-stream"), strings.Contains(kind, "json"), strings.Contains(kind, "xml"):
	default:
		return resp, nil
	}
	body := &peeked{ReadCloser: resp.Body, more: make(chan struct{}, 1), done: make(chan struct{}), from: resp}
	shown := new(http.Response)
	*shown = *resp
	shown.Body, shown.Trailer = body, maps.Clone(resp.Trailer)
	body.shown = shown
	return shown, decoded(resp.Header, body.peek())
}

// decoded is a head without its coding, nil if that is not known.
func decoded(h http.Header, head []byte) []byte {
	switch coding := h.Get("Content-Encoding"); coding {
	case "", "identity":
		return head
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return nil
		}
		text := make([]byte, mostPeek)
		n, _ := io.ReadFull(z, text)
		return text[:n]
	}
	return nil
}

// peeked is a body of which the beginning is read ahead, up to the moment when that
// has taken too long.
type peeked struct {
	io.ReadCloser
	more chan struct{} // there is more
	done chan struct{} // nothing is read ahead any more

	// Reading ahead may fill the trailers of from while they are read, so shown has
	// trailers of its own, which are filled at the end.
	from, shown *http.Response

	mu   sync.Mutex
	head []byte // only grows
	gone int    // of it, to the reader
	late bool   // the read that is under way is the last
	over bool   // nothing is read ahead any more
	err  error  // that came with the last of it
}

// peek reads ahead and answers what has come.
func (b *peeked) peek() []byte {
	go b.ahead()
	timer := time.NewTimer(longestPeek)
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
	return b.head[:len(b.head):len(b.head)]
}

func (b *peeked) ahead() {
	defer close(b.done)
	room := make([]byte, mostPeek)
	for n, over := 0, false; !over; {
		k, err := b.ReadCloser.Read(room[n:])
		n += k
		b.mu.Lock()
		b.head, b.err = room[:n], err
		over = err != nil || n == len(room) || b.late
		b.over = over
		b.mu.Unlock()
		select {
		case b.more <- struct{}{}:
		default:
		}
	}
}

// Read gives what was read ahead first.
func (b *peeked) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		n := copy(p, b.head[b.gone:])
		b.gone += n
		over, err := b.over, b.err
		b.mu.Unlock()
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case !over:
			<-b.more
		case err != nil:
			return 0, b.end(err)
		default:
			n, err = b.ReadCloser.Read(p)
			return n, b.end(err)
		}
	}
}

func (b *peeked) end(err error) error {
	if trailer := b.from.Trailer; err == io.EOF && len(trailer) > 0 {
		if b.shown.Trailer == nil {
			b.shown.Trailer = http.Header{}
		}
		maps.Copy(b.shown.Trailer, trailer)
	}
	return err
}
