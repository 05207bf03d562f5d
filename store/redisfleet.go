package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// fleet are the keys that belong to no site. They have one hash tag, so that one
// script may touch several of them.
func (r *Redis) fleet(name string) string { return r.prefix + "{fleet}:" + name }

// Pulse says that an instance is there. Since begins when anybody has seen this
// generation first. In a Cluster it has no Generation: each site has its own.
func (r *Redis) Pulse(ctx context.Context, m Member) (Pulse, error) {
	passed, _ := r.passed()
	gone := "0"
	if m.Gone {
		gone = "1"
	}
	results, err := r.eval(ctx, []run{{
		keys: []string{r.fleet("instances"), r.fleet("names"), r.fleet("life"), r.fleet("documents")},
		args: []any{"pulse", passed, m.ID, m.Name, gone, m.lifetime().Microseconds(), r.news()},
	}})
	if err != nil {
		return Pulse{}, err
	}
	p, life, ok := readPulse(results[0])
	if !ok {
		return Pulse{}, fmt.Errorf("redis at %s: %w", r.where, errStrange)
	}
	if !r.cluster() { // there each master has its own
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
	p.Now, p.Since, p.Documents, p.Members = time.UnixMicro(now), micro(since), version, int(count)
	return p, texts[0], true
}

// Members are the instances that are there.
func (r *Redis) Members(ctx context.Context) ([]Member, error) {
	passed, _ := r.passed()
	results, err := r.eval(ctx, []run{{
		keys: []string{r.fleet("instances"), r.fleet("names")},
		args: []any{"members", passed, MostMembers},
	}})
	if err != nil {
		return nil, err
	}
	texts, _ := results[0].([]any)
	var list []Member
	for i := 0; i+1 < len(texts); i += 2 {
		id, _ := texts[i].(string)
		text, _ := texts[i+1].(string)
		if seen, name, ok := stamped(text); ok {
			list = append(list, Member{ID: id, Name: name, Seen: time.UnixMicro(seen)})
		}
	}
	return listed(slices.Values(list)), nil
}

// Put keeps a document, or removes it.
func (r *Redis) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	passed, _ := r.passed()
	till := "" // remove it
	if value != nil {
		till = "0"
		if !until.IsZero() {
			till = strconv.FormatInt(until.UnixMicro(), 10)
		}
	}
	_, err := r.eval(ctx, []run{{
		keys: []string{r.fleet("doc:" + kind), r.fleet("documents")},
		args: []any{"put", passed, key, till, value, r.news()},
	}})
	return err
}

// All are the documents of a kind.
func (r *Redis) All(ctx context.Context, kind string) (map[string][]byte, error) {
	_, here := r.passed()
	fields, err := r.client.HGetAll(ctx, r.fleet("doc:"+kind)).Result()
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the next Put removes what somebody else wrote there
		return nil, r.explain(err)
	}
	all := make(map[string][]byte, len(fields))
	for key, text := range fields {
		if until, value, ok := stamped(text); ok && (until == 0 || until > here.UnixMicro()) {
			all[key] = []byte(value)
		}
	}
	return all, nil
}

const (
	// lostMark begins what is published of a site, or all, whose budgets were lost.
	lostMark = "!"
	// notesMark begins what is published of a site with its new notes.
	notesMark = "@"
)

// Listen calls heard with what is news until ctx is done. It connects again by itself.
func (r *Redis) Listen(ctx context.Context, heard func(News)) error {
	news := r.client.Subscribe(ctx, r.news())
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
		case one, more := <-messages:
			if !more {
				return ErrClosed
			}
			switch m := one.(type) {
			case *redis.Subscription: // the connection was lost meanwhile
				heard(News{Began: true})
			case *redis.Message:
				_, here := r.passed()
				if n, ok := readNews(m.Payload, here); ok {
					heard(n)
				}
			}
		}
	}
}
