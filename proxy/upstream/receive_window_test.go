package upstream

import (
	"testing"

	"pgregory.net/rapid"
)

// floodedRoom is a connection whose peer sends all that it may, through a system that takes
// at most as much as it promises.
type floodedRoom struct {
	receiveWindow
	takes   int // what it takes, at most the size of the buffer
	opens   int // the free room at which it promises more
	have    int
	came    int // in this window
	charged int // in this window, less what was given back
}

// send has the peer send what it may.
func (f *floodedRoom) send(most int) {
	if free := f.takes - f.have; free >= f.opens {
		n := min(free, most)
		f.have += n
		f.came += n
	}
}

// read is what a connection does with some credit.
func (f *floodedRoom) read(t *rapid.T, n, credit int) {
	got := min(f.toRead(n), credit)
	f.paid += got
	f.charged += got
	read := f.readable(n)
	if f.paid < f.capacity()+read && read > 0 {
		t.Fatalf("%d bytes are read for %d", read, f.paid)
	}
	f.have -= read
	f.unread -= read
}

func TestWhatComesInAWindowIsPaidForInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 1000).Draw(t, "size")
		takes := rapid.IntRange(size/2, size).Draw(t, "takes")
		f := &floodedRoom{receiveWindow: receiveWindow{size: size}, takes: takes, opens: rapid.IntRange(0, takes/2).Draw(t, "opens")}
		f.update(1, 0)
		need := f.toWrite()
		f.paid += need
		f.charged += need
		f.state = awaitingAnswer
		window := int64(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"send", "send", "read", "read", "settle", "turn", "end"}).Draw(t, "what") {
			case "send":
				f.send(rapid.IntRange(1, 1000).Draw(t, "most"))
			case "read":
				f.update(window, f.have)
				if f.have > 0 {
					f.read(t, rapid.IntRange(1, f.have).Draw(t, "n"), rapid.IntRange(0, 2000).Draw(t, "credit"))
				}
			case "settle":
				f.send(1000) // all that the peer was promised has come
				f.update(window, f.have)
				if f.unread > 0 {
					f.charged -= f.surplus(0)
				}
			case "turn":
				if f.have == 0 {
					break // it waits for its peer: what comes then is paid for when it is seen
				}
				f.send(1000)
				window++
				f.update(window, f.have)
				f.came, f.charged = 0, 0
			case "end":
				f.update(window, f.have)
				f.charged -= f.endExchange(answerComplete)
				if f.came > f.charged {
					t.Fatalf("at the end: %d came for %d", f.came, f.charged)
				}
				return
			}
			if f.came > f.charged {
				t.Fatalf("%d came for %d", f.came, f.charged)
			}
		}
	})
}

func TestARoomIsPaidForOnceARequest(t *testing.T) {
	r := receiveWindow{size: 100}
	r.update(7, 0)
	if n := r.toWrite(); n != 100 {
		t.Fatal(n)
	}
	r.paid, r.state = 100, awaitingAnswer
	if n := r.toWrite(); n != 0 {
		t.Errorf("%d more for what is written next", n)
	}
	r.update(7, 30)
	if n := r.toRead(20); n != 20 {
		t.Errorf("%d for reading 20", n)
	}
	if n := r.borrow(10); n != 0 {
		t.Errorf("%d are taken from what is needed", n)
	}
	r.update(8, 60) // all of that is of before
	if n := r.toRead(20); n != 60 {
		t.Errorf("%d for reading 20 and what may come beside", n)
	}
	r.paid = 60
	if n := r.readable(30); n != 20 {
		t.Errorf("%d may be read", n)
	}
	r.unread = 0
	if back := r.endExchange(answerComplete); back != 60 || r.toWrite() != 0 {
		t.Errorf("%d go back, and %d are due", back, r.toWrite())
	}
	r.update(9, 5) // nothing was asked for, and it is owed
	r.state = beforeRequest
	if n := r.toWrite(); n != 100 {
		t.Errorf("%d", n)
	}
}

// What is granted for a write and for what may come after it is never more than the write
// has, whatever has come since it was asked for, and none of it is lost.
func TestAWriteGetsNoMoreThanItHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.IntRange(0, 10_000)
		r := receiveWindow{
			size: sizes.Draw(t, "size"), unread: sizes.Draw(t, "unread"), paid: sizes.Draw(t, "paid") - 5000,
			state: rapid.SampledFrom([]exchangePhase{beforeRequest, awaitingAnswer, answerComplete}).Draw(t, "state"),
		}
		before := r.paid
		granted, n := rapid.IntRange(1, 20_000).Draw(t, "granted"), rapid.IntRange(1, 5000).Draw(t, "n")
		write := r.splitGrant(granted, n)
		if write < 1 || write > n || write+r.paid-before != granted {
			t.Fatalf("%d of %d granted for %d, and %d for what comes", write, granted, n, r.paid-before)
		}
	})
}
