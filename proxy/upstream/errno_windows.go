package upstream

import "golang.org/x/sys/windows"

// System errors of a failed connect, by meaning.
var (
	errRefused      error = windows.WSAECONNREFUSED
	errsReset             = []error{windows.WSAECONNRESET, windows.WSAECONNABORTED}
	errsUnreachable       = []error{
		windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAEHOSTDOWN, windows.WSAENETDOWN,
		windows.WSAEACCES, // a firewall of this machine
		windows.WSAEAFNOSUPPORT, windows.WSAEINVAL, windows.WSAEADDRNOTAVAIL,
	}
	errsOutOfResources = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRINUSE}
)
