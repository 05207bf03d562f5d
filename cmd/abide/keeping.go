package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/store"
)

// stateFile is the name of what is kept, in the data directory.
const stateFile = "abide.db"

// openingPatience is how long the state file and the store may take to be opened.
const openingPatience = 30 * time.Second

// keeping is what outlives the process: the state file on this machine, and the store
// of a fleet.
type keeping struct {
	file  *store.File  // nil: data is none
	redis *store.Redis // nil: budgets are this machine's own
}

// openKeeping opens what a policy says is kept, and what of it the proxy needs.
func openKeeping(ctx context.Context, p *policy.Policy, log *logrus.Logger) (*keeping, proxy.Keeping, error) {
	k, own := &keeping{}, proxy.Keeping{Instance: newInstance(), Name: instanceName()}
	ctx, cancel := context.WithTimeout(ctx, openingPatience)
	defer cancel()
	if p.Data != "none" {
		if err := k.openFile(ctx, p, log, &own); err != nil {
			return nil, own, err
		}
	}
	if !p.Store.Shared() {
		return k, own, nil
	}
	shared, err := store.NewRedis(p.Store.URL.Reveal(), store.RedisOptions{Prefix: p.Store.Prefix})
	if err != nil {
		k.close(log)
		return nil, own, fmt.Errorf("store: %w", err)
	}
	k.redis = shared
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := shared.Pulse(soon, store.Member{}); err != nil {
		if store.Refused(err) {
			k.close(log)
			return nil, own, fmt.Errorf("store: %w", err)
		}
		log.Warnf("the store cannot be reached yet, so limits go by their outage rule until it can: %v", err)
	}
	own.Store, own.Shared, own.Shelf, own.Budgets = shared, true, shared, nil
	return k, own, nil
}

func (k *keeping) openFile(ctx context.Context, p *policy.Policy, log *logrus.Logger, to *proxy.Keeping) error {
	file, err := store.OpenFile(ctx, filepath.Join(p.Data, stateFile), store.FileOptions{
		Strict: p.StrictState, Log: log.Warnf, Instance: to.Instance, Name: to.Name, Most: proxy.MostKept(),
	})
	if err != nil {
		var held *store.Held
		if errors.As(err, &held) {
			return fmt.Errorf("%w (--data), or keep nothing (--data none)", err)
		}
		return err
	}
	k.file = file
	to.Store, to.Shelf, to.Memory = file, file, file
	if !p.Store.Shared() {
		to.Budgets, err = file.Recall(ctx)
	}
	if err != nil && (p.StrictState || file.Health().Err == nil) { // otherwise the log has said so
		k.close(log)
		return fmt.Errorf("reading %s: %w", file.Path(), err)
	}
	return nil
}

// close gives up what openKeeping took.
func (k *keeping) close(log *logrus.Logger) {
	if k == nil {
		return
	}
	if k.redis != nil {
		_ = k.redis.Close() // nothing is lost by it
	}
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			log.Warnf("closing the state file: %v", err)
		}
	}
}

// newInstance is the name of one life of a process.
func newInstance() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// instanceName is what people know this process by.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
