package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Warnings are recommended changes of a server that is usable as it is. Each is a sentence
// for operators.
func (r *Redis) Warnings(ctx context.Context) []string {
	var mu sync.Mutex
	var all []string
	look := func(ctx context.Context, server *redis.Client) error {
		list := warningsOf(ctx, server, server.Options().Addr)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, list...)
		return nil
	}
	switch c := r.client.(type) {
	case *redis.ClusterClient:
		_ = c.ForEachMaster(ctx, look) // a server without an answer has no warnings
	case *redis.Client:
		all = warningsOf(ctx, c, r.address)
	}
	slices.Sort(all)
	return all
}

func warningsOf(ctx context.Context, server *redis.Client, where string) (list []string) {
	text, err := server.Info(ctx, "memory").Result()
	policy := ""
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found {
			policy = value
		}
	}
	if err != nil && Refused(err) {
		list = append(list, fmt.Sprintf("redis at %s: its user may not run INFO, so nothing tells at once when it was started again from an old copy, "+
			"or a replica has taken over: give it the permission +info (ACL SETUSER name +info)", where))
	}
	if policy == "" {
		if found, err := server.ConfigGet(ctx, "maxmemory-policy").Result(); err == nil {
			policy = found["maxmemory-policy"]
		}
	}
	if policy != "" && policy != "noeviction" {
		list = append(list, fmt.Sprintf("redis at %s: its maxmemory-policy is %s, so when it is full it removes limits that count, "+
			"and each of those stands still for %v: set it to noeviction", where, policy, RecoveryTime))
	}
	return list
}
