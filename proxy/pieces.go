package proxy

// pieces are the part of a body that has come and that somebody has still to read.
// The zero value is empty. It has no lock.
type pieces struct {
	list [][]byte // :: each of smallCopy bytes, the last as far as it is filled
	from int64    // of the body, where the first piece begins
	to   int64    // of the body, where the last one ends
	size int      // of a body that is smaller than a piece; 0: unknown or larger
	err  error    // what comes after the last byte
}

// expect says how long the body will be; negative is unknown.
func (b *pieces) expect(length int64) {
	if 0 < length && length < smallCopy {
		b.size = int(length)
	}
}

// place is room for the next bytes, nil when there are as many pieces as may be.
func (b *pieces) place(most int) []byte {
	if n := len(b.list); n > 0 {
		if last := b.list[n-1]; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
		if n >= most {
			return nil
		}
	}
	piece := b.fresh()
	b.list = append(b.list, piece)
	return piece[:cap(piece)]
}

func (b *pieces) fresh() []byte {
	if size := b.size; size > 0 {
		b.size = 0
		return make([]byte, 0, size+1) // and room to ask whether that was all
	}
	return (*smallBuffers.Get().(*[]byte))[:0:smallCopy]
}

// grow says that so much has been put into the place.
func (b *pieces) grow(n int) {
	last := &b.list[len(b.list)-1]
	*last = (*last)[:len(*last)+n]
	b.to += int64(n)
}

func (b *pieces) end(err error) { b.err = err }

// read copies what follows at, which must not have been trimmed. The error comes
// with the last bytes.
func (b *pieces) read(at int64, p []byte) (n int, err error) {
	for n < len(p) && at < b.to {
		piece := b.list[(at-b.from)/smallCopy]
		got := copy(p[n:], piece[(at-b.from)%smallCopy:])
		n, at = n+got, at+int64(got)
	}
	if at == b.to {
		err = b.err
	}
	return n, err
}

// first tells whether at lies in the first piece, which can then not be trimmed.
func (b *pieces) first(at int64) bool { return at-b.from < smallCopy }

// trim lets the pieces go that end before at.
func (b *pieces) trim(at int64) {
	for len(b.list) > 0 && len(b.list[0]) == smallCopy && at-b.from >= smallCopy {
		piece := b.list[0][:smallCopy]
		smallBuffers.Put(&piece)
		b.list[0] = nil
		b.list = b.list[1:]
		b.from += smallCopy
	}
}
