//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// fault is something that goes wrong while four abides share budgets.
type fault struct {
	name   string
	lasts  time.Duration
	quick  time.Duration // the same in a quick run; 0: as long
	phase  time.Duration // after a window has begun
	window time.Duration // 0: 5 s
	smoke  bool          // belongs to a quick run
	toxic  bool          // abides reach Redis through toxiproxy
	clock  bool          // or through what gives it another clock
	every  time.Duration // while it lasts, each is done so often
	each   func(ctx context.Context, s *scene, n int) error
	early  time.Duration // before that something is done
	before func(context.Context, *scene) error
	begin  func(context.Context, *scene) error
	end    func(context.Context, *scene) error
}

// scene is where it goes wrong.
type scene struct {
	*bed
	redis   *redisServer
	replica *redisServer
	toxic   *toxiproxy
	clock   *shifted
	members []*member
}

func nothing(context.Context, *scene) error { return nil }

func stop(_ context.Context, s *scene) error { return s.redis.Signal(syscall.SIGSTOP) }

func goOn(_ context.Context, s *scene) error { return s.redis.Signal(syscall.SIGCONT) }

func killRedis(_ context.Context, s *scene) error {
	s.redis.Kill()
	return nil
}

func startRedis(ctx context.Context, s *scene) error {
	return s.redis.StartAt(ctx, s.redis.at)
}

const mid, late = 2500 * time.Millisecond, 4 * time.Second

var faults = []fault{
	{name: "nothing", lasts: 5 * time.Second, phase: mid, begin: nothing, end: nothing},
	{name: "Redis stopped (SIGSTOP) within a window, 2 s", lasts: 2 * time.Second, phase: time.Second, begin: stop, end: goOn},
	{name: "Redis stopped (SIGSTOP) across a boundary, 10 s", lasts: 10 * time.Second, phase: late, smoke: true, begin: stop, end: goOn},
	{name: "Redis stopped (SIGSTOP) in the middle of a window of 30 s, 10 s", lasts: 10 * time.Second, phase: 8 * time.Second, window: 30 * time.Second, begin: stop, end: goOn},
	{name: "Redis killed, and back empty after 10 s", lasts: 10 * time.Second, phase: mid, begin: killRedis, end: startRedis},
	{name: "Redis restarted empty", phase: mid, smoke: true, begin: killRedis, end: startRedis},
	{
		name: "failed over to a replica that lags 2 s", phase: mid, smoke: true, toxic: true, early: 2 * time.Second,
		before: func(ctx context.Context, s *scene) error { return s.replica.do(ctx, "REPLICAOF NO ONE") },
		begin: func(ctx context.Context, s *scene) error {
			s.redis.Kill()
			return s.toxic.lead(ctx, s.replica)
		},
		end: nothing,
	},
	slow(45 * time.Millisecond),
	slow(60 * time.Millisecond),
	slow(100 * time.Millisecond),
	slow(200 * time.Millisecond),
	step("10 s ahead from then on", 10*time.Second, 0),
	step("10 s behind from then on", -10*time.Second, 0),
	step("10 s ahead for 2 s", 10*time.Second, 2*time.Second),
	step("10 s behind for 2 s", -10*time.Second, 2*time.Second),
	{
		name: "failed over to a replica that lags 2 s and whose clock is 3 s behind", phase: mid, clock: true, early: 2 * time.Second,
		before: func(ctx context.Context, s *scene) error { return s.replica.do(ctx, "REPLICAOF NO ONE") },
		begin: func(_ context.Context, s *scene) error {
			s.redis.Kill()
			s.clock.offset.Store(int64(-3 * time.Second))
			s.clock.lead(s.replica.at)
			return nil
		},
		end: nothing,
	},
	{
		name: "the keys of the budgets deleted", phase: 8 * time.Second, window: 30 * time.Second, smoke: true,
		begin: func(ctx context.Context, s *scene) error { return s.redis.lose(ctx, "*fixed*") },
		end:   nothing,
	},
	{
		name: "FLUSHALL", phase: 8 * time.Second, window: 30 * time.Second,
		begin: func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "FLUSHALL") },
		end:   nothing,
	},
	{
		name: "Redis evicts what it likes, 2 s", lasts: 2 * time.Second, phase: 8 * time.Second, window: 30 * time.Second,
		begin: func(ctx context.Context, s *scene) error {
			if err := s.redis.fill(ctx, 4<<20); err != nil {
				return err
			}
			return s.redis.do(ctx, "CONFIG SET maxmemory-policy allkeys-random", "CONFIG SET maxmemory 1mb")
		},
		end: func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "CONFIG SET maxmemory 0") },
	},
	{
		name: "SCRIPT FLUSH", phase: mid,
		begin: func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "SCRIPT FLUSH") },
		end:   nothing,
	},
	{
		name: "wrong password, connections ended, 10 s", lasts: 10 * time.Second, phase: mid,
		begin: func(ctx context.Context, s *scene) error {
			err := s.redis.do(ctx, "CONFIG SET requirepass another")
			s.redis.password = "another"
			if err != nil {
				return err
			}
			return s.redis.do(ctx, "CLIENT KILL TYPE normal SKIPME yes")
		},
		end: func(ctx context.Context, s *scene) error {
			c := s.redis.client()
			defer c.Close()
			return c.ConfigSet(ctx, "requirepass", "").Err()
		},
	},
	{
		name: "Redis out of memory (OOM), 10 s", lasts: 10 * time.Second, phase: mid,
		begin: func(ctx context.Context, s *scene) error {
			if err := s.redis.fill(ctx, 4<<20); err != nil {
				return err
			}
			return s.redis.do(ctx, "CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1mb")
		},
		end: func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "CONFIG SET maxmemory 0") },
	},
	{
		name: "Redis a replica of nobody (READONLY), 10 s", lasts: 10 * time.Second, phase: mid,
		begin: func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "REPLICAOF 127.0.0.1 1") },
		end:   func(ctx context.Context, s *scene) error { return s.redis.do(ctx, "REPLICAOF NO ONE") },
	},
	{
		name: "an abide killed, and back after 5 s", lasts: 5 * time.Second, phase: mid,
		begin: func(_ context.Context, s *scene) error {
			s.members[0].Kill()
			s.members[0].leave()
			return nil
		},
		end: func(ctx context.Context, s *scene) error {
			err := s.members[0].StartAt(ctx, s.members[0].at)
			s.members[0].back()
			return err
		},
	},
	{
		name: "an abide frozen (SIGSTOP), 70 s", lasts: 70 * time.Second, quick: 8 * time.Second, phase: mid,
		begin: func(_ context.Context, s *scene) error {
			err := s.members[0].Signal(syscall.SIGSTOP)
			s.members[0].leave()
			return err
		},
		end: func(_ context.Context, s *scene) error {
			err := s.members[0].Signal(syscall.SIGCONT)
			s.members[0].back()
			return err
		},
	},
	{
		name: "every 2 s an abide is killed or ended, and another one started, 20 s", lasts: 20 * time.Second, quick: 6 * time.Second, phase: mid,
		begin: nothing, end: nothing, every: 2 * time.Second,
		each: func(ctx context.Context, s *scene, n int) error {
			m := s.members[n%len(s.members)]
			m.leave()
			if n%2 == 0 {
				m.Kill()
			} else {
				m.Stop()
			}
			err := m.StartAt(ctx, m.at)
			m.back()
			return err
		},
	},
}

// slow is a network on which an answer takes longer.
func slow(by time.Duration) fault {
	return fault{
		name: fmt.Sprintf("answers of Redis %v later, 10 s", by), lasts: 10 * time.Second, phase: mid, toxic: true,
		begin: func(ctx context.Context, s *scene) error { return s.toxic.slow(ctx, by) },
		end:   func(ctx context.Context, s *scene) error { return s.toxic.fast(ctx) },
	}
}

// step is a clock of Redis that is set. 0 is for good.
func step(name string, by, lasts time.Duration) fault {
	end := nothing
	if lasts > 0 {
		end = func(_ context.Context, s *scene) error {
			s.clock.offset.Store(0)
			return nil
		}
	}
	return fault{
		name: "the clock of Redis " + name, lasts: lasts, phase: time.Second, clock: true,
		begin: func(_ context.Context, s *scene) error {
			s.clock.offset.Store(int64(by))
			return nil
		},
		end: end,
	}
}
