package ca

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// keychains hold Apple's roots, and those that the machine's owner added.
var keychains = []string{
	"/System/Library/Keychains/SystemRootCertificates.keychain",
	"/Library/Keychains/System.keychain",
}

func systemRoots() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	args := append([]string{"find-certificate", "-a", "-p"}, keychains...)
	text, err := exec.CommandContext(ctx, "/usr/bin/security", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("reading the system's root certificates: %w", err)
	}
	return text, nil
}
