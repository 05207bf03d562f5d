package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// stateVersion is the first byte of every state. Older versions are read: see spent.
const stateVersion = 3

var errState = errors.New("the state of a limit is damaged")

// encoder appends the parts of a state.
type encoder []byte

func newEncoder(as As) encoder { return append(make(encoder, 0, 64), stateVersion, kinds[as].number) }

// newState begins the state of a meter with the time of its clock and its history.
func newState(as As, last int64, spent *history) encoder {
	b := newEncoder(as)
	b.int(last)
	spent.append(&b)
	return b
}

func (b *encoder) int(n int64)     { *b = binary.AppendVarint(*b, n) }
func (b *encoder) float(f float64) { *b = binary.LittleEndian.AppendUint64(*b, math.Float64bits(f)) }

// decoder reads the parts of a state. After its first failure everything read is zero, so
// that callers check once.
type decoder struct {
	rest    []byte
	version byte
	err     error
}

func newDecoder(as As, state []byte) *decoder {
	d := &decoder{}
	switch {
	case len(state) < 2:
		d.err = errState
	case state[0] < 1 || state[0] > stateVersion:
		d.err = fmt.Errorf("the state of a limit has version %d, this is for %d", state[0], stateVersion)
	case state[1] != kinds[as].number:
		d.err = fmt.Errorf("the state is that of another kind of limit, not of %q", as)
	default:
		d.version, d.rest = state[0], state[2:]
	}
	return d
}

// readState reads what newState wrote.
func readState(as As, state []byte) (d *decoder, last int64, spent history) {
	d = newDecoder(as, state)
	last = d.time(FarFuture)
	return d, last, d.spent(last)
}

// between reads a number from least to most.
func (d *decoder) between(least, most int64) int64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Varint(d.rest)
	if size <= 0 || n < least || n > most {
		d.err = errState
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// time reads nanoseconds since 1970, up to most.
func (d *decoder) time(most int64) int64 { return d.between(0, min(most, FarFuture)) }

func (d *decoder) float(least, most float64) float64 {
	if d.err != nil {
		return 0
	}
	if len(d.rest) < 8 {
		d.err = errState
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(d.rest))
	if !(f >= least && f <= most) { // also refuses NaN
		d.err = errState
		return 0
	}
	d.rest = d.rest[8:]
	return f
}

// fail records that the parts are inconsistent.
func (d *decoder) fail() {
	if d.err == nil {
		d.err = errState
	}
}

// done returns an error if bytes are left.
func (d *decoder) done() error {
	if d.err == nil && len(d.rest) > 0 {
		d.err = errState
	}
	return d.err
}
