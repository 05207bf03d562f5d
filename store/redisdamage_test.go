package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

// damages is everything that somebody else may do to a key of abide's, by what was there.
func damages(key string, fields ...string) (all [][]any) {
	all = [][]any{
		{"SET", key, "x"},
		{"SET", key, "12"},
		{"RPUSH", key, "x"},
		{"SADD", key, "x"},
		{"ZADD", key, "1", "x"},
		{"HSET", key, "field", "x"},
		{"XADD", key, "*", "field", "x"},
	}
	for _, f := range fields {
		for _, text := range []string{
			"", "x", "0", "-1", "1e308", "9999999999999999999999", "\x00", "\xc0", "\x90", "\x91\xc0", "\x80",
			"\x99\xa0\xa0\x00\x00\x00\x00\x00\x90",                                      // a record that lacks the last of its fields
			"\x99\xa1a\xa0\xa1x\x00\x00\x00\x00\x90\x90",                                // a text as its time
			"\x99\xa1a\xa0\x00\x00\x00\x00\x00\x92\x01\xa1x\x90",                        // a text among its totals
			"\x99\xa1a\xa0\x00\x00\x00\x00\x00\x91\x01\x90",                             // half a pair
			"\x99\xa1a\xa0\x00\x00\x00\x00\x00\x92\x01\xc0\x90",                         // nothing instead of a number
			"\x99\xa1a\xa0\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x90\x90", // not a number
			"\x99\xa1a\xa0\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x90\x90", // infinite
			"\x99\xa1a\x90\x00\x00\x00\x00\x00\x90\x90",                                 // a list as its life
			"\x93\xa0\x00\x00", "\x93\xa11\xa1x\x00", "\x94\xa11\x00\x00\x01", "\x95\xa11\x00\x00\x01\xa1x", // entries
			"\x95\xa11\x00\x00\x01\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", // of less than nothing
			"\x93\x01\x02\x03", "\x93\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa1x", "\x93\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x00\xa1x", // notes
			"\x93\xcf\x00\x0f\xff\xff\xff\xff\xff\xff\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00\xa1x",
		} {
			all = append(all, []any{"HSET", key, f, text})
		}
	}
	return all
}

// Whatever somebody writes under a budget's key, nothing is granted beyond the limit, and
// after the time for saying again what is held the budget goes on.
func TestABudgetWhoseKeyIsDamagedGoesOnLikeOneThatWasLost(t *testing.T) {
	c := newClock()
	s := openRedis(t, c.now).(losing)
	n := 0
	say := func(b store.Batch) store.Reply {
		t.Helper()
		r, err := s.Exchange(t.Context(), []store.Batch{b})
		if err != nil {
			t.Fatal(err)
		}
		return r[0]
	}
	const minute = "f/60000000/k"
	var entry string // the field of instance a
	say(store.Batch{Site: "site", Instance: "a", Asks: []store.Ask{fixed(1, 10)}})
	for _, one := range s.server.Do("HKEYS", "abide:{site}:"+minute).([]any) {
		if name := one.(string); name != "s" {
			entry = name
		}
	}
	for _, harm := range damages("abide:{KEY}", "s", entry) {
		n++
		site := fmt.Sprint("site", n)
		key := "abide:{" + site + "}:" + minute
		harm[1] = key
		first := say(store.Batch{Site: site, Instance: "a", Asks: []store.Ask{fixed(1, 40)}})
		held := first.Answers[0]
		if harm[0] != "HSET" || harm[2] == "field" {
			s.server.Do("DEL", key)
		}
		s.server.Do(harm...)
		other := fixed(2, 1)
		other.Key = "other"
		ask := fixed(2, 1, store.Holding{Window: held.Window, N: held.Granted})
		ask.Birth, ask.Seen = held.Birth, held.Now
		r := say(store.Batch{Site: site, Instance: "a", Generation: first.Generation, Asks: []store.Ask{ask, other}})
		a := r.Answers[0]
		if a.Status == store.Failed || r.Answers[1].Status != store.Done {
			t.Errorf("%q: got %+v", harm, r.Answers)
			continue
		}
		if a.Status != store.Done { // it was noticed
			if a.Status != store.Foreign || a.Recovery <= 0 || a.Granted != 40 {
				t.Errorf("%q: got %+v", harm, a)
			}
			newcomer := say(store.Batch{Site: site, Instance: "b", Asks: []store.Ask{fixed(1, 60)}}).Answers[0]
			if newcomer.Granted != 0 || newcomer.Recovery <= 0 {
				t.Errorf("%q: a newcomer got %+v", harm, newcomer)
			}
		}
		c.forward(store.RecoveryTime)
		ask = fixed(3, 1, store.Holding{Window: held.Window, N: held.Granted})
		ask.Birth, ask.Seen = a.Birth, a.Now
		if a = say(store.Batch{Site: site, Instance: "a", Generation: first.Generation, Asks: []store.Ask{ask}}).Answers[0]; a.Status != store.Done {
			t.Errorf("%q: after it has settled: %+v", harm, a)
		}
		all := say(store.Batch{Site: site, Instance: "c", Asks: []store.Ask{fixed(1, 1000)}}).Answers[0]
		if all.Window == held.Window && all.Granted+a.Granted > 100 {
			t.Errorf("%q: %d and %d were granted of 100", harm, a.Granted, all.Granted)
		}
	}
}

// What somebody writes under the other keys of abide's is removed, and all goes on.
func TestAKeyBesideTheBudgetsThatIsDamagedIsMadeAnew(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	seq := uint64(0)
	everythingAt := func(t *testing.T, harm string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		seq++
		p, err := s.Pulse(ctx, store.Member{ID: "a", Name: "host", Lifetime: time.Hour})
		if err != nil || p.Members < 1 {
			t.Errorf("%s: a pulse answers %+v, %v", harm, p, err)
		}
		if all, err := s.Members(ctx); err != nil || len(all) != p.Members && !strings.Contains(harm, "HSET") && !strings.Contains(harm, "ZADD") {
			t.Errorf("%s: the members are %+v, %v", harm, all, err)
		}
		if _, err := s.All(ctx, "kind"); err != nil {
			t.Errorf("%s: the documents are %v", harm, err)
		}
		if err := s.Put(ctx, "kind", "a", []byte("x"), time.Time{}); err != nil {
			t.Errorf("%s: a document is put: %v", harm, err)
		}
		if all, err := s.All(ctx, "kind"); err != nil || string(all["a"]) != "x" {
			t.Errorf("%s: the documents are %q, %v", harm, all, err)
		}
		if now, err := s.Pulse(ctx, store.Member{ID: "a", Name: "host"}); err != nil || now.Documents == p.Documents {
			t.Errorf("%s: nobody hears of the document: %+v, %v", harm, now, err)
		}
		r, err := s.Exchange(ctx, []store.Batch{{
			Site: "site", Instance: "a", Asks: []store.Ask{fixed(seq, 1)},
			Notes: []store.Note{{Key: "n", Until: time.Now().Add(time.Hour), N: int64(seq), Text: "said"}},
		}})
		if err != nil || len(r[0].Notes) == 0 || r[0].Answers[0].Status == store.Failed {
			t.Errorf("%s: an exchange answers %+v, %v", harm, r, err)
			return
		}
		r, err = s.Exchange(ctx, []store.Batch{{Site: "site", Instance: "b", Asks: []store.Ask{fixed(seq, 1)}}})
		if err != nil || len(r[0].Notes) == 0 {
			t.Errorf("%s: another one hears %+v, %v", harm, r, err)
		}
	}
	everythingAt(t, "nothing")
	for key, fields := range map[string][]string{
		"abide:{site}:notes": {"n", "other"}, "abide:{site}:ends": {"", "f/60000000/k"},
		"abide:{fleet}:life": {"life"}, "abide:{fleet}:instances": nil, "abide:{fleet}:names": {"a", "b"},
		"abide:{fleet}:documents": nil, "abide:{fleet}:doc:kind": {"a", "b"},
	} {
		for _, harm := range damages(key, fields...) {
			if harm[0] != "HSET" || harm[2] == "field" {
				server.Do("DEL", key)
			}
			if _, err := server.Try(harm...); err != nil { // what nobody has used since is as it was
				server.Do("DEL", key)
				server.Do(harm...)
			}
			everythingAt(t, fmt.Sprintf("%q", harm))
		}
	}
	server.Do("SET", "abide:{fleet}:documents", "9223372036854775807") // cannot be counted further
	everythingAt(t, "the last number")
}
