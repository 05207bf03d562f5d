package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
)

// listen opens a listener for a setting and, where that fails, says what to do.
func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	name := "ABIDE_LISTEN"
	flag := "--listen"
	if key == "admin.listen" {
		name, flag = "ABIDE_ADMIN", "--admin"
	}
	other := fmt.Sprintf("%s, %s or %s", flag, name, key)
	_, port, _ := net.SplitHostPort(address)
	inUse := errors.Is(err, syscall.EADDRINUSE)
	switch {
	case inUse && port == "0":
		return nil, fmt.Errorf("%s: this machine has no port left for %s; wait until some of its connections have ended", key, address)
	case inUse || strings.Contains(err.Error(), "Only one usage of each socket address"):
		return nil, fmt.Errorf("%s: %s is in use by another process, maybe another abide; stop that one or choose another address with %s", key, address, other)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: this user may not listen on %s; choose a port above 1023 with %s", key, address, other)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s: this machine does not have the address of %s; choose another with %s", key, address, other)
	}
	return nil, fmt.Errorf("%s: %w; choose another address with %s", key, err, other)
}
