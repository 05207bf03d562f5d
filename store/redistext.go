package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errStrange is when a script that is ours did not answer as ours does.
var errStrange = errors.New("the answer makes no sense")

// exchange is a Batch as the script takes it.
func (r *Redis) exchange(b *Batch, passed string, here time.Time) run {
	tag := r.tag(b.Site)
	keys := make([]string, 1, 1+len(b.Asks))
	keys[0] = tag + "notes"
	fresh := "0"
	if newcomer(b) {
		fresh = "1"
	}
	args := make([]any, 0, 9+12*len(b.Asks)+4*len(b.Notes))
	args = append(args, "exchange", passed, r.livesOf(b.Generation), fresh, b.Instance, b.Site, r.news(), len(b.Asks))
	for i := range b.Asks {
		a := &b.Asks[i]
		keys = append(keys, tag+budget(a))
		args = append(args,
			int(a.Kind), fmt.Sprintf("%020d", a.Seq), clamp(a.Amount), width(a), slots(a),
			clamp(a.Want), min(max(a.Least, 1), brims), clamp(a.Waits), clamp(a.Ahead),
			a.State, holdsText(a.Holds), edgesText(a.Edges))
	}
	args = append(args, len(b.Notes))
	for _, n := range b.Notes {
		n = n.whole()
		args = append(args, n.Key, n.Until.UnixMicro()-here.UnixMicro(), n.N, n.Text)
	}
	return run{keys, args}
}

func holdsText(holds []Holding) string {
	var text []byte
	for _, h := range normal(holds) {
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

// readReply reads what the script answered of a Batch, and in which life of the data.
func readReply(result any, b *Batch, here time.Time, reply *Reply) (life string, err error) {
	list, _ := result.([]any)
	if len(list) != 3 {
		return "", errStrange
	}
	life, _ = list[0].(string)
	answers, _ := list[1].([]any)
	notes, _ := list[2].([]any)
	if life == "" || len(answers) != len(b.Asks) {
		return "", errStrange
	}
	reply.Answers = make([]Answer, len(answers))
	for i, one := range answers {
		n, ok := numbers(one)
		if !ok || len(n) < 8 || len(n)%2 != 0 {
			return "", errStrange
		}
		reply.Answers[i] = Answer{
			Key: b.Asks[i].Key, Seq: b.Asks[i].Seq, Status: Status(n[0]),
			Window: n[1], Ends: micro(n[2]), Granted: n[3], Ahead: n[4],
			Remaining: n[5], Holders: int(n[6]), Free: micro(n[7]),
		}
		for later := n[8:]; len(later) > 0; later = later[2:] {
			reply.Answers[i].Later = append(reply.Answers[i].Later, Holding{Window: later[0], N: later[1]})
		}
	}
	for _, one := range notes {
		n, _ := one.([]any)
		if len(n) != 4 {
			return "", errStrange
		}
		key, ok1 := n[0].(string)
		left, ok2 := n[1].(int64)
		amount, ok3 := n[2].(int64)
		text, ok4 := n[3].(string)
		if !ok1 || !ok2 || !ok3 || !ok4 {
			return "", errStrange
		}
		reply.Notes = append(reply.Notes, Note{Key: key, Until: time.UnixMicro(here.UnixMicro() + left), N: amount, Text: text})
	}
	sortNotes(reply.Notes)
	return life, nil
}

func numbers(v any) ([]int64, bool) {
	list, ok := v.([]any)
	n := make([]int64, len(list))
	for i, one := range list {
		value, whole := one.(int64)
		n[i], ok = value, ok && whole
	}
	return n, ok
}

// stamped is a text that begins with a time in microseconds and a colon.
func stamped(text string) (at int64, rest string, ok bool) {
	stamp, rest, found := strings.Cut(text, ":")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, rest, found && err == nil
}
