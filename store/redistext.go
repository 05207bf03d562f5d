package store

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"time"
)

// errInvalidAnswer is an answer of our script with an unexpected form.
var errInvalidAnswer = errors.New("the answer has an unexpected form")

// exchange makes the arguments of the script for a Batch.
func (r *Redis) exchange(b *Batch, passed string, here time.Time) scriptRun {
	tag := r.siteKeyPrefix(b.Site)
	keys := make([]string, 2, 3+len(b.Asks))
	keys[0], keys[1] = tag+"notes", tag+"ends"
	fresh := "0"
	if b.Newcomer() {
		fresh = "1"
	}
	args := make([]any, 0, 10+19*len(b.Asks)+4*len(b.Notes))
	args = append(args, "exchange", passed, b.Generation, fresh, instanceField(b.Instance), b.Site, r.newsChannel(), len(tag), len(b.Asks))
	for i := range b.Asks {
		a := b.Asks[i].Exact()
		keys = append(keys, tag+a.Name())
		args = append(args,
			int(a.Kind), strconv.FormatUint(a.Seq, 10), a.Amount, Width(&a).Microseconds(), a.Slots,
			a.Want, a.Least, a.Waits, a.Ahead, a.Lasts,
			a.State, holdsText(a.Holds), edgesText(a.Edges), a.Past, a.Birth, a.Seen.UnixMicro(),
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
