package replay

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// manualBody is a body whose pieces come when the test says so.
type manualBody struct {
	pieces chan string // closed at its end
	gone   chan struct{}
	closed atomic.Int64
	fails  error // in place of io.EOF
}

var errManualBodyClosed = errors.New("the tap is closed")

func newManualBody() *manualBody {
	return &manualBody{pieces: make(chan string), gone: make(chan struct{})}
}

func (d *manualBody) Read(p []byte) (int, error) {
	select {
	case s, ok := <-d.pieces:
		switch {
		case ok:
			return copy(p, s), nil
		case d.fails != nil:
			return 0, d.fails
		}
		return 0, io.EOF
	case <-d.gone:
		return 0, errManualBodyClosed
	}
}

func (d *manualBody) Close() error {
	if d.closed.Add(1) == 1 {
		close(d.gone)
	}
	return nil
}

// upTo allows a body to keep n bytes and one for the end, a step at a time.
func upTo(n, step int) Allowance { return fixedAllowance{n, step} }

type fixedAllowance struct{ most, step int }

func (b fixedAllowance) Take(have int) int { return max(0, min(b.step, b.most+1-have)) }

func newReplayBody(source io.ReadCloser, trailer http.Header, memory Allowance) *Body {
	b := &Body{}
	b.Begin(source, trailer, memory)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expectBytes reads the next bytes of a body.
func expectBytes(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("%q %v, not %q", got[:n], err, want)
	}
}

// expectEnd reads the end of a body.
func expectEnd(t *testing.T, r io.Reader, want error) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != want {
		t.Fatalf("%d %v, not the end", n, err)
	}
}

func TestEachAttemptReadsABodyFromItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(100, 4))
		first, _ := s.Reader()
		go func() { d.pieces <- "abc" }()
		expectBytes(t, first, "abc")
		first.Close()
		if !s.Intact() {
			t.Fatal("an attempt that ended has spoilt the body")
		}
		second, _ := s.Reader()
		expectBytes(t, second, "abc")
		go func() { d.pieces <- "d"; close(d.pieces) }()
		expectBytes(t, second, "d")
		expectEnd(t, second, io.EOF)
		second.Close()
		third, _ := s.Reader()
		expectBytes(t, third, "abcd")
		expectEnd(t, third, io.EOF)
		if n := d.closed.Load(); n != 0 || !s.Intact() {
			t.Errorf("closed %d times, intact: %v", n, s.Intact())
		}
	})
}

func TestAnAttemptThatEndsWhileItWaitsForTheBodyLosesNothingOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(100, 4))
		first, _ := s.Reader()
		read := make(chan error, 1)
		go func() {
			_, err := first.Read(make([]byte, 10))
			read <- err
		}()
		synctest.Wait()
		first.Close()
		if err := <-read; err != ErrClosed {
			t.Errorf("what waited got %v", err)
		}
		if d.closed.Load() != 0 {
			t.Error("the end of an attempt ended the body")
		}
		second, _ := s.Reader()
		go func() { d.pieces <- "abc"; close(d.pieces) }()
		expectBytes(t, second, "abc")
		expectEnd(t, second, io.EOF)
	})
}

func TestABodyThatIsNotKeptEndsWithItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(2, 4))
		r, _ := s.Reader()
		go func() { d.pieces <- "abc"; d.pieces <- "def" }()
		expectBytes(t, r, "abcdef")
		if s.Intact() {
			t.Error("what is gone could be sent again")
		}
		r.Close()
		r.Close()
		if n := d.closed.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

func TestABodyOfExactlyTheBoundIsKeptAndOneOfAByteMoreIsNot(t *testing.T) {
	const bound = 10
	for _, step := range []int{1, 3, bound, 100} {
		for size := range bound + 5 {
			body := bytes.Repeat([]byte("x"), size)
			for _, pumped := range []bool{true, false} {
				s := newReplayBody(io.NopCloser(bytes.NewReader(body)), nil, upTo(bound, step))
				if pumped {
					must(t, s.ReadAhead())
				}
				r, _ := s.Reader()
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, body) {
					t.Fatalf("%d bytes in steps of %d: %d %v", size, step, len(got), err)
				}
				if kept := s.Intact(); kept != (size <= bound) {
					t.Errorf("%d bytes in steps of %d, pumped: %v: kept: %v", size, step, pumped, kept)
				}
				if len(s.buf) > bound+1 {
					t.Errorf("%d bytes are held", len(s.buf))
				}
			}
		}
	}
}

func TestADroppedBodyIsReadToItsEndByTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(100, 4))
		r, _ := s.Reader()
		go func() { d.pieces <- "abcd" }()
		expectBytes(t, r, "ab")
		s.Drop()
		if s.Intact() || d.closed.Load() != 0 {
			t.Errorf("intact: %v, closed %d times", s.Intact(), d.closed.Load())
		}
		expectBytes(t, r, "cd")
		if s.buf != nil {
			t.Error("what was read is still in memory")
		}
		go func() { d.pieces <- "ef"; d.pieces <- "gh" }()
		expectBytes(t, r, "efgh")
		if s.buf != nil {
			t.Error("more is kept")
		}
		close(d.pieces)
		expectEnd(t, r, io.EOF)
		r.Close()
		if n := d.closed.Load(); n != 0 {
			t.Errorf("closed %d times after its end", n)
		}
	})
}

func TestADroppedBodyThatNobodyReadsIsClosed(t *testing.T) {
	for _, read := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newManualBody()
			s := newReplayBody(d, nil, upTo(100, 4))
			pumped := make(chan error, 1)
			go func() { pumped <- s.ReadAhead() }()
			d.pieces <- "abc"
			if read {
				r, _ := s.Reader()
				expectBytes(t, r, "abc")
				r.Close()
			}
			s.Drop()
			if err := <-pumped; err != errManualBodyClosed {
				t.Errorf("read: %v: who reads ahead got %v", read, err)
			}
		})
	}
}

func TestNothingIsReadAheadOfABodyThatWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(1000, 4))
		r, _ := s.Reader()
		pumped := make(chan error, 1)
		go func() { pumped <- s.ReadAhead() }()
		synctest.Wait()
		s.Drop()
		d.pieces <- "abc" // the read that went on
		must(t, <-pumped)
		expectBytes(t, r, "abc")
		if s.buf != nil {
			t.Error("what was read is still in memory")
		}
		r.Close()
		if n := d.closed.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

func TestTheEndOfTheHandlerEndsAReadOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		s := newReplayBody(d, nil, upTo(100, 4))
		pumped := make(chan error, 1)
		go func() { pumped <- s.ReadAhead() }()
		synctest.Wait()
		s.Finish()
		if err := <-pumped; err != errManualBodyClosed {
			t.Errorf("%v", err)
		}

		d = newManualBody()
		s = newReplayBody(d, nil, upTo(100, 4))
		close(d.pieces)
		must(t, s.ReadAhead())
		s.Finish()
		if n := d.closed.Load(); n != 0 {
			t.Errorf("closed %d times after its end", n)
		}
	})
}

func TestABodyThatBreaksIsBrokenForEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		d.fails = io.ErrUnexpectedEOF
		s := newReplayBody(d, http.Header{"X-A": nil}, upTo(100, 4))
		go func() { d.pieces <- "abc"; close(d.pieces) }()
		if err := s.ReadAhead(); err != io.ErrUnexpectedEOF {
			t.Errorf("who reads ahead got %v", err)
		}
		if s.Intact() {
			t.Error("it could be sent")
		}
		for range 2 {
			r, trailer := s.Reader()
			expectBytes(t, r, "abc")
			expectEnd(t, r, io.ErrUnexpectedEOF)
			if trailer.Get("X-A") != "" {
				t.Error("it has a trailer")
			}
			r.Close()
		}
	})
}

func TestATrailerIsThereAtTheEndOfEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newManualBody()
		announced := http.Header{"X-A": nil, "X-B": nil}
		s := newReplayBody(d, announced, upTo(100, 4))
		first, early := s.Reader()
		go func() {
			d.pieces <- "abc"
			announced["X-A"] = []string{"1"} // as net/http does before it returns io.EOF
			close(d.pieces)
		}()
		expectBytes(t, first, "abc")
		if _, said := early["X-B"]; len(early) != 2 || !said || early["X-A"] != nil {
			t.Errorf("announced: %v", early)
		}
		second, late := s.Reader()
		expectBytes(t, second, "abc")
		expectEnd(t, second, io.EOF)
		expectEnd(t, first, io.EOF)
		for _, h := range []http.Header{early, late} {
			if h.Get("X-A") != "1" || h.Get("X-B") != "" {
				t.Errorf("%v", h)
			}
		}
	})
}

// chunkedReader returns a body in pieces of given sizes.
type chunkedReader struct {
	rest  []byte
	sizes []int
	next  int
}

func (s *chunkedReader) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.sizes[s.next%len(s.sizes)])], s.rest)
	s.rest = s.rest[n:]
	s.next++
	return n, nil
}

func (s *chunkedReader) Close() error { return nil }

func TestEveryAttemptThatComesToTheEndHasReadExactlyTheBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 6)
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")
		bound := rapid.IntRange(0, 220).Draw(t, "bound")
		step := rapid.IntRange(1, 50).Draw(t, "step")
		source := &chunkedReader{rest: slices.Clone(body), sizes: sizes.Draw(t, "sizes of what comes")}
		s := newReplayBody(source, nil, upTo(bound, step))
		pumped := make(chan error, 1)
		ahead := rapid.IntRange(0, 2).Draw(t, "read ahead in attempt")
		for attempt := range 3 {
			if attempt == ahead {
				go func() { pumped <- s.ReadAhead() }()
			}
			if !s.Intact() {
				break
			}
			r, _ := s.Reader()
			steps := sizes.Draw(t, "sizes of what is read")
			most := rapid.IntRange(0, 300).Draw(t, "bytes until the attempt ends")
			drop := rapid.IntRange(0, 600).Draw(t, "bytes until it is dropped")
			if attempt == 2 {
				most = len(body) + 1
			}
			var got []byte
			for i := 0; len(got) < most; i++ {
				if len(got) >= drop {
					s.Drop()
				}
				p := make([]byte, steps[i%len(steps)])
				n, err := r.Read(p)
				got = append(got, p[:n]...)
				if err == io.EOF {
					if !bytes.Equal(got, body) {
						t.Fatalf("attempt %d read %d bytes, the body has %d", attempt, len(got), len(body))
					}
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.HasPrefix(body, got) {
				t.Fatalf("attempt %d read other bytes", attempt)
			}
			r.Close()
			if attempt < ahead {
				continue
			}
			if attempt == ahead {
				if err := <-pumped; err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
