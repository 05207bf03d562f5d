//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/abide-proxy/abide/bench/process"
)

// redisServer is a redis-server of ours.
type redisServer struct {
	*process.Process
	at       string // host:port
	password string // that it wants now
}

func (r *redisServer) url() string { return "redis://" + r.at }

func (r *redisServer) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.at, Password: r.password, MaxRetries: -1, DisableIdentity: true})
}

// do runs commands, each by words with spaces between them.
func (r *redisServer) do(ctx context.Context, commands ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := r.client()
	defer c.Close()
	for _, text := range commands {
		var args []any
		for word := range strings.SplitSeq(text, " ") {
			args = append(args, word)
		}
		if err := c.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("redis: %s: %w", text, err)
		}
	}
	return nil
}

// fill puts in so many bytes, which have nothing to do with abide.
func (r *redisServer) fill(ctx context.Context, n int) error {
	c := r.client()
	defer c.Close()
	return c.Set(ctx, "filler", strings.Repeat("x", n), 0).Err()
}

// lose deletes the keys of a pattern, as an eviction does.
func (r *redisServer) lose(ctx context.Context, pattern string) error {
	c := r.client()
	defer c.Close()
	keys, err := c.Keys(ctx, pattern).Result()
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("redis: there is no key %s", pattern)
	}
	if err != nil {
		return err
	}
	return c.Del(ctx, keys...).Err()
}

// follow makes it a replica that has all that its master has.
func (r *redisServer) follow(ctx context.Context, master *redisServer) error {
	host, port, _ := net.SplitHostPort(master.at)
	if err := r.do(ctx, "REPLICAOF "+host+" "+port); err != nil {
		return err
	}
	c := r.client()
	defer c.Close()
	for {
		text, err := c.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(text, "master_link_status:up") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a replica does not follow its master: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ran is how often scripts were run, and how long they took.
type ran struct {
	calls int64
	took  time.Duration
}

// scripts is what was run so far.
func (r *redisServer) scripts(ctx context.Context) (ran, error) {
	c := r.client()
	defer c.Close()
	text, err := c.Info(ctx, "commandstats").Result()
	if err != nil {
		return ran{}, fmt.Errorf("redis: INFO: %w", err)
	}
	var sum ran
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		for field := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch key {
			case "calls":
				sum.calls += n
			case "usec":
				sum.took += time.Duration(n) * time.Microsecond
			}
		}
	}
	return sum, nil
}

func (s ran) since(before ran) ran {
	return ran{calls: s.calls - before.calls, took: s.took - before.took}
}

func (s ran) each() time.Duration {
	if s.calls == 0 {
		return 0
	}
	return s.took / time.Duration(s.calls)
}
