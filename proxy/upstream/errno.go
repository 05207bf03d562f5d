//go:build !windows

package upstream

import "syscall"

// System errors of a failed connect, by meaning.
var (
	errRefused      error = syscall.ECONNREFUSED
	errsReset             = []error{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE}
	errsUnreachable       = []error{
		syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.EACCES, syscall.EPERM, // a firewall of this machine
		syscall.EAFNOSUPPORT, syscall.EINVAL, // no such family, or an address that cannot be connected to
	}
	errsOutOfResources = []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN}
)
