//go:build unix

package proxy

import "syscall"

// descriptors returns the number of files that this process may open. Each client may need one
// more for its upstream.
func descriptors() int64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int64(min(r.Cur, 1<<20))
}
