package upstream

import "golang.org/x/sys/windows"

// What a failed connect says, in the words of this system.
var (
	errRefused      error = windows.WSAECONNREFUSED
	errsReset             = []error{windows.WSAECONNRESET, windows.WSAECONNABORTED}
	errsUnreachable       = []error{
		windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAEHOSTDOWN, windows.WSAENETDOWN,
		windows.WSAEACCES, // a firewall of this machine
		windows.WSAEAFNOSUPPORT, windows.WSAEINVAL, windows.WSAEADDRNOTAVAIL,
	}
	errsRanOut = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRINUSE}
)
