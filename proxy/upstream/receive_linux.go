package upstream

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// maxSystemReceiveBuffer is how large the system lets a receive buffer become of which nobody sets
// the size, in bytes.
var maxSystemReceiveBuffer = sync.OnceValue(func() int64 {
	const unknown = 32 << 20
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_rmem") // minimum, default, maximum
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return unknown
	}
	n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil || n <= 0 {
		return unknown
	}
	return n
})
