package store

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

//go:embed redis.lua
var script string

// scriptDigest is the SHA-1 by which Redis identifies the script.
var scriptDigest = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// silenceClientLog disables the client's own log: it contains addresses, and errors report
// what is wrong.
var silenceClientLog = sync.OnceFunc(logging.Disable)

// Redis is a store for a fleet: Redis from 6.2 on or Valkey, as a single server, with
// Sentinels, or as a Cluster. Each Batch is one run of one script on one server, all its
// keys have the hash tag of the site, and several Batches go in one round trip. It is safe
// for concurrent use.
//
// Its generation is made of the replication ID of the server that ran the script, which
// changes after a restart and when a replica becomes master, and of a random mark, which is
// lost when all keys are deleted. In a Cluster each master has its own generation, which
// concerns its own sites only, and there is no mark.
type Redis struct {
	client  redis.UniversalClient
	prefix  string
	now     func() time.Time // nil: the server's clock
	address string           // for messages
	secrets []string
}

// NewRedis makes a store without contacting the server, for processes that start while the
// store may be away. now replaces the server's clock, for tests and simulations; nil: it does not.
func NewRedis(at *policy.Store, now func() time.Time) (*Redis, error) {
	silenceClientLog()
	client, err := clientOf(at)
	if err != nil {
		return nil, err
	}
	r := &Redis{client: client, prefix: cmp.Or(at.Prefix, "abide:"), now: now, address: strings.Join(at.Hosts, ",")}
	for _, one := range []policy.Secret{at.Password, at.SentinelPassword} {
		if !one.Empty() {
			r.secrets = append(r.secrets, one.Reveal())
		}
	}
	return r, nil
}

func (r *Redis) newsChannel() string { return r.prefix + "news" }

// timeArgument returns the time argument of the script, and the local time.
func (r *Redis) timeArgument() (passed string, here time.Time) {
	if r.now == nil {
		return "", time.Now()
	}
	here = r.now()
	return strconv.FormatInt(here.UnixMicro(), 10), here
}

// Exchange answers each Batch. An error of one is an error of all: callers state their
// holds again, which is right whatever was done.
func (r *Redis) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	if len(batches) == 0 {
		return nil, ctx.Err()
	}
	passed, here := r.timeArgument()
	runs := make([]scriptRun, len(batches))
	for i := range batches {
		runs[i] = r.exchange(&batches[i], passed, here)
	}
	results, err := r.eval(ctx, runs)
	if err != nil {
		return nil, err
	}
	_, here = r.timeArgument()
	replies := make([]Reply, len(batches))
	for i := range batches {
		if replies[i], err = readReply(results[i], &batches[i], here); err != nil {
			return nil, fmt.Errorf("redis at %s: %w", r.address, err)
		}
	}
	return replies, nil
}

// scriptRun is one run of the script.
type scriptRun struct {
	keys []string
	args []any
}

// eval runs the scripts in one round trip, and sends the script itself to servers that do
// not know it, as after a restart.
func (r *Redis) eval(ctx context.Context, runs []scriptRun) (_ []any, err error) {
	defer background.Caught(&err)
	results := make([]any, len(runs))
	left := make([]int, len(runs))
	for i := range left {
		left[i] = i
	}
	for _, whole := range []bool{false, true} {
		commands := make([]*redis.Cmd, len(left))
		_, failed := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for n, i := range left {
				if whole {
					commands[n] = p.Eval(ctx, script, runs[i].keys, runs[i].args...)
				} else {
					commands[n] = p.EvalSha(ctx, scriptDigest, runs[i].keys, runs[i].args...)
				}
			}
			return nil
		})
		var again []int
		for n, c := range commands {
			result, err := c.Result()
			if err == nil && result == nil {
				err = failed // nothing was sent, as with a wrong password
			}
			switch {
			case err == nil:
				results[left[n]] = result
			case !whole && redis.HasErrorPrefix(err, "NOSCRIPT"):
				again = append(again, left[n])
			default:
				return nil, r.explain(err)
			}
		}
		if left = again; len(left) == 0 {
			break
		}
	}
	return results, nil
}

// Refused tells whether an error means that a Redis is reachable but denies access, which
// does not pass by itself.
func Refused(err error) bool {
	return err != nil && slices.ContainsFunc(remedies, func(r remedy) bool { return r.denied && strings.Contains(err.Error(), r.said) })
}

// Answered tells whether an error is an answer of the store: it is reachable but refuses
// the operation.
func Answered(err error) bool {
	if item, ok := errors.AsType[redis.Error](err); ok {
		return !errors.Is(item, redis.Nil)
	}
	_, ok := errors.AsType[redactedError](err)
	return ok || errors.Is(err, errInvalidAnswer)
}

// redactedError is an error answer of a server as one short line, without secrets.
type redactedError struct{ error }

// remedy says what to do about the errors of Redis that have a text. denied: nothing is done for this user.
type remedy struct {
	said, do string
	denied   bool
}

var remedies = []remedy{
	{"WRONGPASS", "it refuses the user or the password of the store's URL", true},
	{"NOAUTH", "it wants a password; put it in the store's URL, as redis://:PASSWORD@host", true},
	{"unauthenticated", "it wants a password; put it in the store's URL, as redis://:PASSWORD@host", true},
	{"NOPERM", "its user lacks a permission: " + Permissions, true},
	{"No permissions", "its user lacks a permission: " + Permissions, true},
	{"can't run this command", "its user lacks a permission: " + Permissions, true},
	{"OOM ", "it is full; raise its maxmemory", false},
	{"READONLY", "it is a replica; name the master, or its Sentinels with redis+sentinel://", false},
	{"LOADING", "it was started and reads its data; wait until it has, or see its log", false},
	{"MASTERDOWN", "it is a replica without its master; start that, or let its Sentinels promote another one", false},
	{"CLUSTERDOWN", "a part of the Cluster has no master; see CLUSTER INFO and CLUSTER NODES", false},
	{"MOVED", "it is part of a Cluster; begin the store's URL with redis+cluster://", false},
	{"ASK ", "it is part of a Cluster; begin the store's URL with redis+cluster://", false},
	{"TRYAGAIN", "the Cluster moves these keys from one master to another; wait until it has", false},
	{"MISCONF", "it cannot save to its disk, so it takes nothing; see its log, and make room", false},
	{"NOREPLICAS", "it has too few replicas; start them, or lower its min-replicas-to-write", false},
	{"BUSY ", "a script runs on it for too long; see its log, and end that with SCRIPT KILL", false},
	{"max number of clients", "it has too many connections; raise its maxclients", false},
	{"DB index is out of range", "it has no such database; change that of the store's URL", true},
	{"invalid DB index", "it has no such database; change that of the store's URL", true},
}

// explain adds what to do to an error, and removes secrets and characters that are not printable.
func (r *Redis) explain(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return ErrClosed
	}
	text := err.Error()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	if text = status.Line(text); Answered(err) {
		err = redactedError{errors.New(text)}
	} else if text != err.Error() {
		err = errors.New(text)
	}
	hint := ""
	if i := slices.IndexFunc(remedies, func(r remedy) bool { return strings.Contains(text, r.said) }); i >= 0 {
		hint = ": " + remedies[i].do
	}
	return fmt.Errorf("redis at %s%s: %w", r.address, hint, err)
}

// Permissions are the permissions that the Redis user needs, in the syntax of ACL SETUSER,
// with the default prefix of keys.
const Permissions = "~abide:* &abide:* +eval +evalsha +info +time +hget +hgetall +hset +hdel +pexpire +get +incr " +
	"+zadd +zrem +zcount +zrangebyscore " +
	"+publish +subscribe +unsubscribe +ping +select +hello, and in a Cluster +cluster|slots +cluster|shards +command +readonly"

// Warnings lists recommended changes of a server that is usable as it is. Each is a sentence
// for operators.
func (r *Redis) Warnings(ctx context.Context) []string {
	var mu sync.Mutex
	var all []string
	look := func(ctx context.Context, server *redis.Client) (err error) {
		defer background.Caught(&err)
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
		_ = look(ctx, c)
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

// isCluster tells whether the store is a Cluster, where the keys of a site and of the fleet
// may be on different servers.
func (r *Redis) isCluster() bool {
	_, ok := r.client.(*redis.ClusterClient)
	return ok
}

// Close closes all connections.
func (r *Redis) Close() error {
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return r.explain(err)
	}
	return nil
}
