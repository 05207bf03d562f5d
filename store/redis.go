package store

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

//go:embed redis.lua
var script string

// digest is the name that Redis gives the script.
var digest = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// quiet silences the client's own log: it has addresses in it, and what is wrong is
// in the errors.
var quiet = sync.OnceFunc(logging.Disable)

// Redis is a store for a fleet: a Redis from 6.2 on or a Valkey, alone, with Sentinels,
// or a Cluster. Each Batch is one run of one script on one server, all that it touches
// is under the hash tag of its site, and several go in one round trip.
//
// Its generation is made of the replication ID of the server that ran the script, which
// is another after a restart and after a replica has become the master, and of a mark,
// which goes when everything is removed. In a Cluster each master has its own, so that
// what happens to one of them is said of its own sites only, and there is no mark.
type Redis struct {
	client  redis.UniversalClient
	prefix  string
	now     func() time.Time // nil: the server's clock
	where   string           // for people
	secrets []string
}

// RedisOptions are all optional.
type RedisOptions struct {
	Prefix string           // of every key and channel; "abide:"
	Now    func() time.Time // in place of the server's clock: for tests and simulations
	TLS    *tls.Config      // for rediss; the URL's ca comes before its RootCAs
}

// OpenRedis connects to the Redis of a URL and sees whether it can be used. See
// address for what is accepted.
func OpenRedis(ctx context.Context, url string, o RedisOptions) (*Redis, error) {
	r, err := NewRedis(url, o)
	if err != nil {
		return nil, err
	}
	if _, err := r.Pulse(ctx, Member{}); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// NewRedis is OpenRedis without asking anything of the server: for who starts while
// it may be away.
func NewRedis(url string, o RedisOptions) (*Redis, error) {
	quiet()
	a, err := readAddress(url)
	if err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = "abide:"
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, errors.New("the prefix of the store's keys has a brace in it, which Redis would take for a hash tag")
	}
	client, err := a.client(o.TLS)
	if err != nil {
		return nil, err
	}
	r := &Redis{client: client, prefix: o.Prefix, now: o.Now, where: strings.Join(a.hosts, ",")}
	for _, one := range []string{a.password, a.guard.password} {
		if one != "" {
			r.secrets = append(r.secrets, one)
		}
	}
	return r, nil
}

// tag is what all keys of one site begin with. What is between the first braces
// decides in which slot of a Cluster a key is.
func (r *Redis) tag(site string) string {
	if site == "" {
		site = "%"
	}
	return r.prefix + "{" + strings.ReplaceAll(site, "}", "%7D") + "}:"
}

func (r *Redis) news() string { return r.prefix + "news" }

// passed is the time that the script is given, and here is what the time is here.
func (r *Redis) passed() (passed string, here time.Time) {
	if r.now == nil {
		return "", time.Now()
	}
	here = r.now()
	return strconv.FormatInt(here.UnixMicro(), 10), here
}

// Exchange answers each Batch. An error of one is an error of all: who asked says
// again what he holds, and that is right whatever was done.
func (r *Redis) Exchange(ctx context.Context, batches []Batch) ([]Reply, error) {
	if len(batches) == 0 {
		return nil, ctx.Err()
	}
	passed, here := r.passed()
	runs := make([]run, len(batches))
	for i := range batches {
		runs[i] = r.exchange(&batches[i], passed, here)
	}
	results, err := r.eval(ctx, runs)
	if err != nil {
		return nil, err
	}
	_, here = r.passed()
	replies := make([]Reply, len(batches))
	for i := range batches {
		if err := readReply(results[i], &batches[i], here, &replies[i]); err != nil {
			return nil, fmt.Errorf("redis at %s: %w", r.where, err)
		}
	}
	return replies, nil
}

// run is one run of the script.
type run struct {
	keys []string
	args []any
}

// eval runs them in one round trip, and once more those of which a server does not
// know the script, as after a restart.
func (r *Redis) eval(ctx context.Context, runs []run) ([]any, error) {
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
					commands[n] = p.EvalSha(ctx, digest, runs[i].keys, runs[i].args...)
				}
			}
			return nil
		})
		var again []int
		for n, c := range commands {
			result, err := c.Result()
			if err == nil && result == nil {
				err = failed // before any of them was sent, as when a password is wrong
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

// Refused tells whether an error says that a Redis is there and does not want us: that
// does not pass by itself.
func Refused(err error) bool {
	if err == nil {
		return false
	}
	for _, word := range []string{"WRONGPASS", "NOAUTH", "unauthenticated", "NOPERM", "No permissions", "can't run this command", "DB index is out of range", "invalid DB index"} {
		if strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}

// Answered tells whether an error is what a store has answered: it is there, and does not
// do what it was asked.
func Answered(err error) bool {
	if one, is := errors.AsType[redis.Error](err); is {
		return !errors.Is(one, redis.Nil)
	}
	_, is := errors.AsType[hidden](err)
	return is || errors.Is(err, errStrange)
}

// hidden is what a server has answered, without the secrets that were in it.
type hidden struct{ error }

// remedies are what to do about what a Redis answers, by a part of that. Some begin an
// answer only.
var remedies = []struct{ said, do string }{
	{"WRONGPASS", "it refuses the user or the password of the store's URL"},
	{"NOAUTH", "it wants a password; put it in the store's URL, as redis://:PASSWORD@host"},
	{"unauthenticated", "it wants a password; put it in the store's URL, as redis://:PASSWORD@host"},
	{"NOPERM", "its user lacks a permission: " + Permissions},
	{"No permissions", "its user lacks a permission: " + Permissions},
	{"can't run this command", "its user lacks a permission: " + Permissions},
	{"OOM ", "it is full; raise its maxmemory"},
	{"READONLY", "it is a replica; name the master, or its Sentinels with redis+sentinel://"},
	{"LOADING", "it was started and reads its data; wait until it has, or see its log"},
	{"MASTERDOWN", "it is a replica without its master; start that, or let its Sentinels promote another one"},
	{"CLUSTERDOWN", "a part of the Cluster has no master; see CLUSTER INFO and CLUSTER NODES"},
	{"MOVED", "it is part of a Cluster; begin the store's URL with redis+cluster://"},
	{"ASK ", "it is part of a Cluster; begin the store's URL with redis+cluster://"},
	{"TRYAGAIN", "the Cluster moves these keys from one master to another; wait until it has"},
	{"MISCONF", "it cannot save to its disk, so it takes nothing; see its log, and make room"},
	{"NOREPLICAS", "it has too few replicas; start them, or lower its min-replicas-to-write"},
	{"BUSY ", "a script runs on it for too long; see its log, and end that with SCRIPT KILL"},
	{"max number of clients", "it has too many connections; raise its maxclients"},
	{"DB index is out of range", "it has no such database; change that of the store's URL"},
	{"invalid DB index", "it has no such database; change that of the store's URL"},
}

// explain says what to do about an error. No secret is in it.
func (r *Redis) explain(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return ErrClosed
	}
	text := err.Error()
	for _, secret := range r.secrets {
		if strings.Contains(text, secret) {
			text = strings.ReplaceAll(text, secret, "…")
			if answered := Answered(err); answered {
				err = hidden{errors.New(text)}
			} else {
				err = errors.New(text)
			}
		}
	}
	hint := ""
	for _, one := range remedies {
		if strings.Contains(text, one.said) {
			hint = ": " + one.do
			break
		}
	}
	return fmt.Errorf("redis at %s%s: %w", r.where, hint, err)
}

// Permissions are those that the user of a Redis needs, as ACL SETUSER takes them,
// with the prefix that keys have unless another is set.
const Permissions = "~abide:* &abide:* +eval +evalsha +info +time +hget +hgetall +hset +hdel +pexpire +get +incr " +
	"+zadd +zrem +zcount +zrangebyscore " +
	"+publish +subscribe +unsubscribe +ping +select +hello, and in a Cluster +cluster|slots +cluster|shards +command +readonly"

// cluster tells whether the keys of a site are on another server than those of the fleet
// may be.
func (r *Redis) cluster() bool {
	_, is := r.client.(*redis.ClusterClient)
	return is
}

// Close ends all connections.
func (r *Redis) Close() error {
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return r.explain(err)
	}
	return nil
}
