package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Run calls a measurement with a context that ends at an interrupt, at a SIGTERM, and
// after the longest time that the measurement may take.
func Run(longest time.Duration, measure func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return measure(ctx)
}

// RepositoryRoot returns the folder above this module, from which ./cmd/abide is built.
func RepositoryRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("this has to run inside the module bench, as go -C bench run . does")
	}
	return filepath.Dir(filepath.Dir(file)), nil
}

// Pause waits for a time, or until the context ends, whose error it returns then.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
