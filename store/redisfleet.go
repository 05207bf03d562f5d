package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// fleetKey makes a key that belongs to no site. All have one hash tag, so that one script may
// use several of them.
func (r *Redis) fleetKey(name string) string { return r.prefix + "{fleet}:" + name }

// Pulse records that an instance is alive. Since begins when any instance has first seen
// this generation. In a Cluster it has no Generation: each site has its own.
func (r *Redis) Pulse(ctx context.Context, m Member) (Pulse, error) {
	passed, _ := r.timeArgument()
	gone := "0"
	if m.Gone {
		gone = "1"
	}
	results, err := r.eval(ctx, []scriptRun{{
		keys: []string{r.fleetKey("instances"), r.fleetKey("names"), r.fleetKey("life"), r.fleetKey("documents")},
		args: []any{"pulse", passed, m.ID, m.Name, gone, m.lifetime().Microseconds(), r.newsChannel()},
	}})
	if err != nil {
		return Pulse{}, err
	}
	p, life, ok := readPulse(results[0])
	if !ok {
		return Pulse{}, fmt.Errorf("redis at %s: %w", r.address, errInvalidAnswer)
	}
	if !r.isCluster() { // in a Cluster each master has its own
		p.Generation = life
	}
	return p, nil
}

func readPulse(result any) (p Pulse, life string, ok bool) {
	list, _ := result.([]any)
	if len(list) != 5 {
		return p, "", false
	}
	var texts [4]string
	for i := range texts {
		if texts[i], ok = list[i].(string); !ok {
			return p, "", false
		}
	}
	now, err1 := strconv.ParseInt(texts[1], 10, 64)
	since, err2 := strconv.ParseInt(texts[2], 10, 64)
	version, err3 := strconv.ParseUint(texts[3], 10, 64)
	count, ok := list[4].(int64)
	if err1 != nil || err2 != nil || err3 != nil || !ok {
		return p, "", false
	}
	p.Now, p.Since, p.Documents, p.Members = time.UnixMicro(now), microseconds(since), version, int(count)
	return p, texts[0], true
}

// Members lists the live instances.
func (r *Redis) Members(ctx context.Context) ([]Member, error) {
	passed, _ := r.timeArgument()
	results, err := r.eval(ctx, []scriptRun{{
		keys: []string{r.fleetKey("instances"), r.fleetKey("names")},
		args: []any{"members", passed, mostMembers},
	}})
	if err != nil {
		return nil, err
	}
	texts, _ := results[0].([]any)
	var list []Member
	for i := 0; i+1 < len(texts); i += 2 {
		id, _ := texts[i].(string)
		text, _ := texts[i+1].(string)
		if seen, name, ok := parseStamped(text); ok {
			list = append(list, Member{ID: id, Name: name, Seen: time.UnixMicro(seen)})
		}
	}
	return sortedMembers(slices.Values(list)), nil
}

// Put saves a document, or removes it if value is nil.
func (r *Redis) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	passed, _ := r.timeArgument()
	till := "" // remove it
	if value != nil {
		till = "0"
		if !until.IsZero() {
			till = strconv.FormatInt(until.UnixMicro(), 10)
		}
	}
	_, err := r.eval(ctx, []scriptRun{{
		keys: []string{r.fleetKey("doc:" + kind), r.fleetKey("documents")},
		args: []any{"put", passed, key, till, value, r.newsChannel()},
	}})
	return err
}

// All returns the documents of a kind.
func (r *Redis) All(ctx context.Context, kind string) (map[string][]byte, error) {
	_, here := r.timeArgument()
	fields, err := r.client.HGetAll(ctx, r.fleetKey("doc:"+kind)).Result()
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the next Put replaces a key of another type
		return nil, r.explain(err)
	}
	all := make(map[string][]byte, len(fields))
	for key, text := range fields {
		if until, value, ok := parseStamped(text); ok && (until == 0 || until > here.UnixMicro()) {
			all[key] = []byte(value)
		}
	}
	return all, nil
}

const (
	// lostMark begins the message that budgets of a site, or of all, were lost.
	lostMark = "!"
	// notesMark begins the message with new notes of a site.
	notesMark = "@"
)

// Listen calls heard with news until ctx is done. It reconnects by itself.
func (r *Redis) Listen(ctx context.Context, heard func(News)) error {
	news := r.client.Subscribe(ctx, r.newsChannel())
	defer news.Close()
	if _, err := news.Receive(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.explain(err)
	}
	heard(News{Began: true})
	messages := news.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message, more := <-messages:
			if !more {
				return ErrClosed
			}
			switch m := message.(type) {
			case *redis.Subscription: // after a reconnect
				heard(News{Began: true})
			case *redis.Message:
				_, here := r.timeArgument()
				if n, ok := readNews(m.Payload, here); ok {
					heard(n)
				}
			}
		}
	}
}
