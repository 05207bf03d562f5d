package proxy

import (
	"sync/atomic"

	"github.com/abide-proxy/abide/policy"
)

// replayStep is how many bytes of memory a body takes at least at a time. Memory is taken
// for what has come and not for what was announced.
const replayStep = 16 << 10

// maxReadAhead bounds what is read of a body that is too large to be kept, while its
// request waits: the end of a client that has left comes after what the client has sent.
// Half of retry.memory is not available for that.
const maxReadAhead = 8 << 20

// replayMemory is the part of retry.memory that one request's body takes.
type replayMemory struct {
	total     *atomic.Int64 // bytes that all requests take
	maxBody   int64         // retry.body
	maxTotal  int64         // retry.memory
	announced int64         // length of the body; negative: unknown
	taken     atomic.Int64  // bytes that this request takes
	ahead     atomic.Bool   // the request waits, and its body is read ahead
	released  atomic.Bool   // nothing more may be taken
}

// begin sets the bounds, and the announced length of the body.
func (m *replayMemory) begin(retry policy.Retry, announced int64) {
	m.maxBody, m.maxTotal, m.announced = int64(retry.Body), int64(retry.Memory), announced
}

// take is by how many bytes a buffer with have bytes may grow, 0 if not at all. There is
// one byte more than announced or allowed, for EOF itself: net/http looks at the client only
// after EOF. Only one goroutine may call take at a time.
func (m *replayMemory) take(have int) int {
	most, memory := m.maxBody+1, m.maxTotal
	switch ahead := m.ahead.Load(); {
	case ahead && (int64(have) >= most || m.announced >= most):
		most, memory = max(most, maxReadAhead+1), memory/2
	case m.announced >= most:
		most = 0 // nothing is kept of a body that is too large
	}
	if m.announced >= 0 {
		most = min(most, m.announced+1)
	}
	step := min(max(replayStep, have), int(most)-have)
	if step <= 0 || m.total.Add(int64(step)) > memory {
		m.total.Add(-int64(max(step, 0)))
		return 0
	}
	m.taken.Add(int64(step))
	if m.released.Load() { // by the end of the handler, meanwhile
		m.total.Add(-m.taken.Swap(0))
		return 0
	}
	return step
}

// release gives the memory back. Nothing more is taken.
func (m *replayMemory) release() {
	m.released.Store(true)
	m.total.Add(-m.taken.Swap(0))
}
