package store

import (
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
		args: []any{"pulse", passed, m.ID, m.Name, m.Gone, m.lifetime().Microseconds(), r.newsChannel()},
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
	tag := r.siteKeyPrefix(b.Site)
	keys := make([]string, 2, 3+len(b.Asks))
	keys[0], keys[1] = tag+"notes", tag+"ends"
	args := make([]any, 0, 10+18*len(b.Asks)+4*len(b.Notes))
	args = append(args, "exchange", passed, b.Generation, b.Newcomer(), instanceField(b.Instance), b.Site, r.newsChannel(), len(tag), len(b.Asks))
	for i := range b.Asks {
		a := b.Asks[i].Exact()
		keys = append(keys, tag+a.Name())
		args = append(args,
			int(a.Kind), strconv.FormatUint(a.Seq, 10), a.Amount, Width(&a).Microseconds(), a.Slots,
			a.Want, a.Least, a.Waits, a.Ahead, a.Lasts,
			holdsText(a.Holds), edgesText(a.Edges), a.Past, a.Birth, a.Seen.UnixMicro(),
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

// instanceField is a short hash of an instance, for its field in a budget's record.
func instanceField(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return string(sum[:8])
}

func holdsText(holds []Holding) string {
	var text []byte
	for _, h := range holds {
		text = strconv.AppendInt(text, h.Window, 10)
		text = append(text, ':')
		text = strconv.AppendInt(text, h.N, 10)
		text = append(text, ' ')
	}
	return string(text)
}

func edgesText(edges []time.Time) string {
	var text []byte
	for _, e := range edges {
		text = strconv.AppendInt(text, e.UnixMicro(), 10)
		text = append(text, ' ')
	}
	return string(text)
}

// readReply parses the script's answer to a Batch.
func readReply(result any, b *Batch, here time.Time, reply *Reply) error {
	list, _ := result.([]any)
	if len(list) != 4 {
		return errInvalidAnswer
	}
	var ok bool
	reply.Generation, ok = list[0].(string)
	now, dated := list[1].(int64)
	answers, _ := list[2].([]any)
	notes, _ := list[3].([]any)
	if !ok || !dated || len(answers) != len(b.Asks) {
		return errInvalidAnswer
	}
	reply.Now = time.UnixMicro(now)
	reply.Answers = make([]Answer, len(answers))
	for i, one := range answers {
		if reply.Answers[i], ok = readAnswer(one, &b.Asks[i]); !ok {
			return errInvalidAnswer
		}
	}
	for _, one := range notes {
		n, _ := one.([]any)
		if len(n) != 4 {
			return errInvalidAnswer
		}
		key, ok1 := n[0].(string)
		left, ok2 := n[1].(int64)
		amount, ok3 := n[2].(int64)
		text, ok4 := n[3].(string)
		if !ok1 || !ok2 || !ok3 || !ok4 {
			return errInvalidAnswer
		}
		reply.Notes = append(reply.Notes, Note{Key: key, Until: time.UnixMicro(here.UnixMicro() + left), N: amount, Text: text})
	}
	SortNotes(reply.Notes)
	return nil
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

func readAnswer(value any, a *Ask) (said Answer, ok bool) {
	list, _ := value.([]any)
	if len(list) < 11 || len(list)%2 == 0 {
		return said, false
	}
	birth, named := list[0].(string)
	n, whole := numbers(list[1:])
	if !named || !whole {
		return said, false
	}
	said = Answer{
		Key: a.Key, Seq: a.Seq, Status: Status(n[0]), Birth: birth, Recovery: microseconds(n[9]),
		Window: n[1], Ends: microseconds(n[2]), Granted: n[3], Ahead: n[4],
		Remaining: n[5], Holders: int(n[6]), Free: microseconds(n[7]),
	}
	if birth != "" {
		said.Now = time.UnixMicro(n[8])
	}
	for later := n[10:]; len(later) > 0; later = later[2:] {
		said.Later = append(said.Later, Holding{Window: later[0], N: later[1]})
	}
	return said, true
}

func numbers(list []any) (n []int64, ok bool) {
	n, ok = make([]int64, len(list)), true
	for i, one := range list {
		value, whole := one.(int64)
		n[i], ok = value, ok && whole
	}
	return n, ok
}

// parseStamped splits a text that begins with a time in microseconds and a colon.
func parseStamped(text string) (at int64, rest string, ok bool) {
	stamp, rest, found := strings.Cut(text, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, rest, found && err == nil
}
