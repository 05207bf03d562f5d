package upstream

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// receiveSizes are the receive buffers that a connection may have, from the largest:
// that is the system's own, however large it lets it become.
var receiveSizes = sync.OnceValue(func() []int64 {
	own := setting("/proc/sys/net/ipv4/tcp_rmem", 32<<20)
	most := min(2*setting("/proc/sys/net/core/rmem_max", 208<<10), mostWide)
	return append([]int64{max(own, leastWide)}, halves(min(most, own))...)
})

// setting is the last number of a file.
func setting(path string, other int64) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return other
	}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return other
	}
	n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil || n <= 0 {
		return other
	}
	return n
}
