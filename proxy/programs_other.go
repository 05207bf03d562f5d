//go:build !linux

package proxy

import "net/netip"

// localProgram would name a program of this machine, which only Linux tells.
func localProgram(_, _ netip.AddrPort) string { return "" }
