//go:build linux

package main

import (
	"context"
	"time"
)

// started is how long the first requests took of an abide that has just begun to
// listen; negative: there was no answer within some seconds.
type started struct {
	name          string
	share, strict time.Duration
}

const patienceAtStart = 6 * time.Second

// starts measures them.
func (b *bed) starts(ctx context.Context, say func(string, ...any)) ([]started, error) {
	defer b.clear()
	var rules []rule
	for _, one := range []rule{{outage: "share"}, {outage: "strict"}} {
		o, err := b.originAt(one.outage+".test", 100)
		if err != nil {
			return nil, err
		}
		one.origin, one.limit = o, "{requests: 200, per: 5s, as: fixed}"
		rules = append(rules, one)
	}
	var list []started
	add := func(name, store string) error {
		// Not at the end of a window, when everybody waits for the next.
		_ = until(ctx, time.Now().Truncate(5*time.Second).Add(5200*time.Millisecond))
		m, err := b.memberAt(ctx, store, rules)
		if err != nil {
			return err
		}
		item := started{name: name, share: -1, strict: -1}
		item.share, item.strict = b.firsts(ctx, m)
		say("first requests, %s: share %v, strict %v", name, item.share, item.strict)
		list = append(list, item)
		return ctx.Err()
	}
	r, err := b.redisAt(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"the first abide on a Redis that nobody used before", "one more abide beside it", "and another one"} {
		if err := add(name, r.url()); err != nil {
			return list, err
		}
	}
	r.Kill()
	if err := add("one more abide while Redis is away", r.url()); err != nil {
		return list, err
	}
	if err := r.StartAt(ctx, r.at); err != nil {
		return list, err
	}
	return list, add("one more abide after Redis came back empty", r.url())
}

// firsts asks for both at once, and measures each.
func (b *bed) firsts(ctx context.Context, m *member) (share, strict time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patienceAtStart)
	defer cancel()
	ask := func(host string) <-chan time.Duration {
		took := make(chan time.Duration, 1)
		go func() {
			c := &crowd{host: host}
			if !c.get(ctx, m) {
				took <- -1
				return
			}
			took <- c.samples[0].took
		}()
		return took
	}
	shared, other := ask("share.test"), ask("strict.test")
	return <-shared, <-other
}
