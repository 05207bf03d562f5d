package store

import (
	"encoding/json"
	"testing"
	"time"
)

// Whatever is written down of a budget that several processes use, an Ask gets no more than
// it wants or than is left, and nothing makes it less than what others may take.
func FuzzCommon(f *testing.F) {
	c := sharedState{State: []byte("4"), Parts: map[string]instancePart{"a": {Seq: 3, Ahead: 2, At: 1}, "b": {Seq: 1, Wants: 7, Until: 3}}}
	text, err := json.Marshal(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, "", int64(1), int64(2), int64(5), true)
	f.Add([]byte("4"), "a", int64(1), int64(2), int64(5), false)
	f.Fuzz(func(t *testing.T, state []byte, instance string, seq, ahead, want int64, lives bool) {
		const left = 100
		seen := int64(-1)
		j := &Joint{Merge: func(_ time.Time, state []byte, _ []Use, lapsed, others int64) ([]byte, int64, time.Time) {
			seen = others
			if lapsed < 0 || others < 0 {
				t.Fatalf("%d have lapsed, and others may take %d", lapsed, others)
			}
			return state, max(left-lapsed-others, 0), time.Time{}
		}}
		r := &JointRow{instance, seq, ahead, 1, state}
		next, said := AnswerJoint(map[string]*JointRow{"k": r}, &Ask{Key: "k", Kind: Count, Seq: 9, Want: want, Least: 1, Joint: j}, "me", time.UnixMicro(2), func(string) bool { return lives })
		if said.Status != Done {
			return
		}
		if said.Granted < 0 || said.Granted > max(want, 0) || said.Granted > left || said.Granted > 0 && said.Granted > left-seen {
			t.Fatalf("%d of %d are granted, others have %d", said.Granted, left, seen)
		}
		if next.ahead < said.Granted {
			t.Fatalf("%d are written down of %d that may be taken", next.ahead, said.Granted)
		}
	})
}

// Whatever a Redis answers, it is read or refused, and nothing is longer than what came.
func FuzzRedisAnswer(f *testing.F) {
	f.Add([]byte(`["life", 5, [["b", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]], [["key", 5, 1, "text"]]]`), []byte(`["life", 1, 2, 3, 4]`))
	f.Fuzz(func(t *testing.T, reply, pulse []byte) {
		if p, _, _ := readPulse(numbersWhole(pulse)); p.Since < 0 && p.Generation != "" {
			t.Fatalf("%+v", p)
		}
		b := &Batch{Asks: []Ask{{Key: "k", Seq: 4}}}
		if r, err := readReply(numbersWhole(reply), b, time.Unix(1_700_000_000, 0)); err == nil && (len(r.Answers) != 1 || r.Answers[0].Key != "k" || r.Answers[0].Seq != 4 || len(r.Answers[0].Later) > len(reply)) {
			t.Fatalf("%+v", r)
		}
	})
}

// numbersWhole is JSON as go-redis reads an answer: lists, texts and whole numbers.
func numbersWhole(text []byte) any {
	var item any
	if json.Unmarshal(text, &item) != nil {
		return nil
	}
	return wholeIn(item)
}

func wholeIn(item any) any {
	switch value := item.(type) {
	case float64:
		return int64(max(min(value, 1<<53), -1<<53))
	case []any:
		for i := range value {
			value[i] = wholeIn(value[i])
		}
		return value
	}
	return item
}
