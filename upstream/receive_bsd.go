//go:build unix && !linux

package upstream

var sizes = append([]int64{8 << 20}, halves(mostWide)...)

// receiveSizes are the receive buffers that a connection may have, from the largest:
// that is as large as the system lets its own become.
func receiveSizes() []int64 { return sizes }
