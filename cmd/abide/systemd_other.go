//go:build !linux

package main

import "time"

// monotonic is 0: systemd runs on Linux only.
func monotonic() time.Duration { return 0 }
