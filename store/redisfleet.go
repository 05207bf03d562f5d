package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
)

// fleetKey makes a key that belongs to no site. All have one hash tag, so that one script may
// use several of them.
func (r *Redis) fleetKey(name string) string { return r.prefix + "{fleet}:" + name }

// Pulse records that an instance is alive. Since begins when any instance has first seen
// this generation. In a Cluster it has no Generation: each site has its own.
func (r *Redis) Pulse(ctx context.Context, m Member) (Pulse, error) {
	passed, _ := r.timeArgument()
	results, err := r.eval(ctx, []scriptRun{{
		keys: []string{r.fleetKey("instances"), r.fleetKey("names"), r.fleetKey("life"), r.fleetKey("documents")},
		args: []any{"pulse", passed, m.ID, m.Name, m.Gone, cmp.Or(m.Lifetime, Lifetime(0)).Microseconds(), r.newsChannel()},
	}})
	if err != nil {
		return Pulse{}, err
	}
	p, life, err := readPulse(results[0])
	if err != nil {
		return Pulse{}, fmt.Errorf("redis at %s: %w", r.address, err)
	}
	if !r.isCluster() { // in a Cluster each master has its own
		p.Generation = life
	}
	return p, nil
}

func readPulse(result any) (p Pulse, life string, err error) {
	said := partsOf(result)
	life = said.text()
	p = Pulse{Now: time.UnixMicro(said.number()), Since: microseconds(said.number()), Documents: uint64(said.number()), Members: int(said.number())}
	return p, life, said.end()
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
	said := partsOf(results[0])
	var list []Member
	for len(said.list) > 1 {
		id, text := said.text(), said.text()
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
func (r *Redis) All(ctx context.Context, kind string) (all map[string][]byte, err error) {
	defer background.Caught(&err)
	_, here := r.timeArgument()
	fields, err := r.client.HGetAll(ctx, r.fleetKey("doc:"+kind)).Result()
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the next Put replaces a key of another type
		return nil, r.explain(err)
	}
	all = make(map[string][]byte, len(fields))
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

// pingEvery is the time between two PINGs on the connection that waits for news.
const pingEvery = 3 * time.Second

// Listen calls heard with news until ctx is done or the connection fails.
func (r *Redis) Listen(ctx context.Context, heard func(News)) (err error) {
	defer background.Caught(&err)
	ctx, cancel := context.WithCancel(ctx)
	news := r.client.Subscribe(ctx, r.newsChannel())
	defer news.Close()
	var pinging sync.WaitGroup
	defer pinging.Wait()
	defer cancel()
	pinging.Go(func() {
		var err error
		defer news.Close() // which ends the wait for a message
		defer background.Caught(&err)
		for clock.Sleep(ctx, pingEvery) == nil && news.Ping(ctx) == nil {
		}
	})
	for {
		// The client's own loop over messages runs in a goroutine of its own, where nothing catches a panic.
		message, err := news.ReceiveTimeout(ctx, pingEvery+timeout)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return r.explain(err)
		}
		switch m := message.(type) {
		case *redis.Subscription:
			heard(News{Began: true})
		case *redis.Message:
			_, here := r.timeArgument()
			if n, ok := readNews(m.Payload, here); ok {
				heard(n)
			}
		}
	}
}

// errInvalidAnswer is an answer of our script with an unexpected form.
var errInvalidAnswer = errors.New("the answer has an unexpected form")

// exchange makes the arguments of the script for a Batch.
func (r *Redis) exchange(b *Batch, passed string, here time.Time) scriptRun {
	tag := r.prefix + "{" + strings.ReplaceAll(cmp.Or(b.Site, "%"), "}", "%7D") + "}:" // what is in braces decides the slot in a Cluster
	instance := sha256.Sum256([]byte(b.Instance))
	keys := make([]string, 2, 3+len(b.Asks))
	keys[0], keys[1] = tag+"notes", tag+"ends"
	args := make([]any, 0, 10+18*len(b.Asks)+4*len(b.Notes))
	args = append(args, "exchange", passed, b.Generation, b.Newcomer(), string(instance[:8]), b.Site, r.newsChannel(), len(tag), len(b.Asks))
	for i := range b.Asks {
		a := b.Asks[i].Exact()
		keys = append(keys, tag+a.Name())
		holds := lists.Map(a.Holds, func(h Holding) string { return fmt.Sprintf("%d:%d", h.Window, h.N) })
		edges := lists.Map(a.Edges, func(e time.Time) string { return strconv.FormatInt(e.UnixMicro(), 10) })
		args = append(args,
			int(a.Kind), strconv.FormatUint(a.Seq, 10), a.Amount, Width(&a).Microseconds(), a.Slots,
			a.Want, a.Least, a.Waits, a.Ahead, a.Lasts,
			strings.Join(holds, " "), strings.Join(edges, " "), a.Past, a.Birth, a.Seen.UnixMicro(),
			a.Counted.Window, a.Counted.N, a.Held)
	}
	if !r.isCluster() {
		keys = append(keys, r.fleetKey("life"))
	}
	args = append(args, len(b.Notes))
	for _, n := range b.Notes {
		n = n.normalized()
		args = append(args, n.Key, n.Until.UnixMicro()-here.UnixMicro(), n.N, n.Text)
	}
	return scriptRun{keys, args}
}

// parts are those of a list of the script's answer that were not read yet.
type parts struct {
	list    []any
	invalid *bool // a part of the answer, or of the answer that it is in, was missing or of another type
}

func partsOf(result any) *parts { return (&parts{[]any{result}, new(bool)}).parts() }

// next reads a part.
func next[T any](p *parts) (part T) {
	ok := len(p.list) > 0
	if ok {
		part, ok = p.list[0].(T)
		p.list = p.list[1:]
	}
	*p.invalid = *p.invalid || !ok
	return part
}

func (p *parts) text() string  { return next[string](p) }
func (p *parts) number() int64 { return next[int64](p) }
func (p *parts) parts() *parts { return &parts{next[[]any](p), p.invalid} }

// end returns an error if a part is left, or was invalid.
func (p *parts) end() error {
	if *p.invalid = *p.invalid || len(p.list) > 0; *p.invalid {
		return errInvalidAnswer
	}
	return nil
}

// readReply parses the script's answer to a Batch.
func readReply(result any, b *Batch, here time.Time) (reply Reply, err error) {
	said := partsOf(result)
	reply = Reply{Generation: said.text(), Now: time.UnixMicro(said.number()), Answers: make([]Answer, len(b.Asks))}
	answers, notes := said.parts(), said.parts()
	for i := range b.Asks {
		reply.Answers[i] = readAnswer(answers.parts(), &b.Asks[i])
	}
	for len(notes.list) > 0 {
		n := notes.parts()
		reply.Notes = append(reply.Notes, Note{Key: n.text(), Until: time.UnixMicro(here.UnixMicro() + n.number()), N: n.number(), Text: n.text()})
		_ = n.end()
	}
	SortNotes(reply.Notes)
	_ = answers.end()
	return reply, said.end()
}

// readNews parses a published message.
func readNews(text string, here time.Time) (news News, ok bool) {
	if site, lost := strings.CutPrefix(text, lostMark); lost {
		return News{Site: site, Lost: true}, true
	}
	rest, full := strings.CutPrefix(text, notesMark)
	if !full {
		return News{Site: text}, true
	}
	fields, ok := readFields(rest)
	if !ok || len(fields)%4 != 1 {
		return news, false
	}
	news.Site = fields[0]
	for f := fields[1:]; len(f) > 0; f = f[4:] {
		left, err1 := strconv.ParseInt(f[1], 10, 64)
		n, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || left < 0 || left > maxSum {
			return news, false
		}
		news.Notes = append(news.Notes, Note{Key: f[0], Until: time.UnixMicro(here.UnixMicro() + left), N: n, Text: f[3]})
	}
	return news, true
}

// readFields parses fields, each preceded by its length and a colon.
func readFields(text string) (fields []string, ok bool) {
	for text != "" {
		length, rest, found := strings.Cut(text, ":")
		n, err := strconv.Atoi(length)
		if !found || err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		fields, text = append(fields, rest[:n]), rest[n:]
	}
	return fields, true
}

func readAnswer(said *parts, a *Ask) Answer {
	ans := Answer{
		Key: a.Key, Seq: a.Seq, Birth: said.text(), Status: Status(said.number()),
		Window: said.number(), Ends: microseconds(said.number()), Granted: said.number(),
		Remaining: said.number(), Holders: int(said.number()),
	}
	if now := said.number(); ans.Birth != "" {
		ans.Now = time.UnixMicro(now)
	}
	ans.Recovery = microseconds(said.number())
	for len(said.list) > 0 {
		ans.Later = append(ans.Later, Holding{Window: said.number(), N: said.number()})
	}
	return ans
}

// parseStamped splits a text that begins with a time in microseconds and a colon.
func parseStamped(text string) (at int64, rest string, ok bool) {
	stamp, rest, found := strings.Cut(text, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, rest, found && err == nil
}
