//go:build !unix

package proxy

// Elsewhere nobody can look without reading.
func hasEnded(uintptr) bool { return false }
