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
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
)

// stateFile is the name of the state file in the data directory.
const stateFile = "abide.db"

// openingPatience bounds the time for opening the state file and the store.
const openingPatience = 30 * time.Second

// storage holds what outlives the process: the state file on this machine, and the store of
// a fleet.
type storage struct {
	file  *store.File  // nil: data is none
	redis *store.Redis // nil: budgets are this machine's own
}

// openStorage opens the state file and the store of a policy. It also returns the part of
// them that the proxy uses.
func openStorage(ctx context.Context, p *policy.Policy, log *logrus.Logger) (*storage, dispatch.Keeping, error) {
	k, keeping := &storage{}, dispatch.Keeping{Instance: newInstance(), Name: instanceName()}
	ctx, cancel := context.WithTimeout(ctx, openingPatience)
	defer cancel()
	if p.Data != "none" {
		if err := k.openFile(ctx, p, log, &keeping); err != nil {
			return nil, keeping, err
		}
	}
	if !p.Store.Shared() {
		return k, keeping, nil
	}
	shared, err := newRedis(&p.Store)
	if err != nil {
		k.close(log)
		return nil, keeping, fmt.Errorf("store: %w", err)
	}
	k.redis = shared
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := shared.Pulse(soon, store.Member{}); err != nil {
		if store.Refused(err) {
			k.close(log)
			return nil, keeping, fmt.Errorf("store: %w", err)
		}
		log.Warnf("the store cannot be reached yet, so limits go by their outage rule until it can: %v", err)
	}
	keeping.Store, keeping.Shared, keeping.Documents, keeping.Budgets = shared, true, shared, nil
	return k, keeping, nil
}

// newRedis is a client for the store of a policy. It does not connect yet.
func newRedis(s *policy.Store) (*store.Redis, error) {
	return store.NewRedis(store.RedisAddress{
		Form: s.Form(), Hosts: s.Hosts, TLS: s.TLS, CA: s.CA, User: s.User, Password: s.Password.Reveal(), DB: s.DB, Master: s.Master,
		SentinelUser: s.SentinelUser, SentinelPassword: s.SentinelPassword.Reveal(),
	}, store.RedisOptions{Prefix: s.Prefix})
}

func (k *storage) openFile(ctx context.Context, p *policy.Policy, log *logrus.Logger, to *dispatch.Keeping) error {
	file, err := store.OpenFile(ctx, filepath.Join(p.Data, stateFile), store.FileOptions{
		Strict: p.StrictState, Log: log.Warnf, Instance: to.Instance, Name: to.Name, Most: sites.MostKept(),
	})
	if err != nil {
		var held *store.Held
		if errors.As(err, &held) {
			return fmt.Errorf("%w (--data), or keep nothing (--data none)", err)
		}
		return err
	}
	k.file = file
	to.Store, to.Documents, to.Memory = file, file, file
	if !p.Store.Shared() {
		to.Budgets, err = file.Recall(ctx)
	}
	if err != nil && (p.StrictState || file.Health().Err == nil) { // otherwise the log has the error
		k.close(log)
		return fmt.Errorf("reading %s: %w", file.Path(), err)
	}
	return nil
}

// close closes the state file and the store.
func (k *storage) close(log *logrus.Logger) {
	if k == nil {
		return
	}
	if k.redis != nil {
		_ = k.redis.Close() // the result does not matter
	}
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			log.Warnf("closing the state file: %v", err)
		}
	}
}

// newInstance is a new identifier for this process.
func newInstance() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// instanceName is the name of this process for people.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
