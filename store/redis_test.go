package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
)

func TestAScriptThatTheServerHasForgottenIsSentAgain(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	r, a := say(t, s, "", "a", fixed(1, 60))
	server.Do("SCRIPT", "FLUSH")
	again, b := say(t, s, r.Generation, "b", fixed(1, 60))
	if again.Generation != r.Generation || b.Window-a.Window > 1 {
		t.Errorf("got %+v after %+v", again, r)
	}
	replies, err := s.Exchange(t.Context(), []store.Batch{
		{Site: "one", Instance: "a", Asks: []store.Ask{fixed(1, 10), fixed(2, 20)}},
		{Site: "two}{", Instance: "a", Asks: []store.Ask{fixed(1, 30)}},
		{Instance: "a", Asks: []store.Ask{fixed(1, 40)}},
	})
	if err != nil || replies[0].Answers[1].Granted != 20 || replies[1].Answers[0].Granted != 30 || replies[2].Answers[0].Granted != 40 {
		t.Errorf("got %+v, %v", replies, err)
	}
}

func TestARestartAndAFailoverAreOtherGenerations(t *testing.T) {
	master := redistest.Start(t)
	s := connect(t, addressOf(master), nil)
	before, _ := say(t, s, "", "b", fixed(1, 10))
	master.Restart()
	after, a := say(t, s, before.Generation, "b", fixed(2, 10))
	if after.Generation == before.Generation || a.Status != store.Foreign {
		t.Errorf("after a restart: %+v", after)
	}

	replica := redistest.Start(t)
	replica.ReplicaOf(master)
	if _, err := pulsing(t.Context(), addressOf(replica), nil); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a replica: %v", err)
	}
	master.Kill()
	if _, err := s.Exchange(t.Context(), []store.Batch{{Site: "site"}}); err == nil {
		t.Error("a server that is dead answers")
	}
	replica.Promote()
	s = connect(t, addressOf(replica), nil)
	last, a := say(t, s, after.Generation, "b", fixed(3, 10))
	if last.Generation == after.Generation || a.Status != store.Foreign {
		t.Errorf("after a failover: %+v", last)
	}
}

func TestErrorsOfRedisSayWhatToDoAndNoSecret(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2secret", "--unixsocketperm", "700")
	hosts := []string{server.Addr}
	for _, row := range []struct {
		address *policy.Store
		want    string
	}{
		{loginAt(server, "", "not-hunter2"), "refuses the user or the password"},
		{loginAt(server, "someone", "hunter2secret"), "refuses the user or the password"},
		{addressOf(server), "put it in the store's URL"},
		{&policy.Store{Hosts: []string{"127.0.0.1:1"}, Password: policy.NewSecret("hunter2secret")}, "127.0.0.1:1"},
		{&policy.Store{Hosts: hosts, TLS: true, Password: policy.NewSecret("hunter2secret")}, server.Addr},
		{&policy.Store{Kind: "redis+cluster", Hosts: hosts, Password: policy.NewSecret("hunter2secret")}, server.Addr},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		s, err := pulsing(ctx, row.address, nil)
		cancel()
		if err == nil {
			s.Close()
			t.Errorf("%s can be used", row.want)
			continue
		}
		if !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want something with %q", err, row.want)
		}
	}
	connect(t, loginAt(server, "", "hunter2secret"), nil)
}

// A server that answers with an error is there, and what it says comes with what to do.
func TestWhatAServerAnswersIsToldFromNoAnswer(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "abide", "on", ">hunter2secret", "~*", "&*", "+@all")
	s := connect(t, loginAt(server, "abide", "hunter2secret"), nil)
	set := func(name, value string) { server.Do("CONFIG", "SET", name, value) }
	for _, row := range []struct {
		do, undo func()
		want     string
	}{
		{func() { set("maxmemory", "1") }, func() { set("maxmemory", "0") }, "raise its maxmemory: OOM"},
		{func() { server.Do("REPLICAOF", "127.0.0.1", "1") }, server.Promote, "it is a replica"},
		{func() { set("min-replicas-to-write", "3") }, func() { set("min-replicas-to-write", "0") }, "min-replicas-to-write: NOREPLICAS"},
		{func() { server.Do("ACL", "SETUSER", "abide", "-evalsha", "-eval") }, func() { server.Do("ACL", "SETUSER", "abide", "+@all") }, "lacks a permission"},
	} {
		row.do()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, err := s.Pulse(ctx, store.Member{ID: "a", Name: "host"})
		cancel()
		if err == nil || !store.Answered(err) || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want something with %q", err, row.want)
		}
		row.undo()
	}
	other, err := store.NewRedis(loginAt(server, "abide", "hunter3secret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err = other.Pulse(t.Context(), store.Member{}); !store.Answered(err) || !store.Refused(err) {
		t.Errorf("a wrong password: %v", err)
	}
	server.Kill()
	if _, err := s.Pulse(t.Context(), store.Member{}); err == nil || store.Answered(err) {
		t.Errorf("a server that is dead answers %v", err)
	}
	if store.Answered(nil) || store.Answered(context.DeadlineExceeded) || store.Answered(store.ErrClosed) {
		t.Error("what nobody has answered")
	}
}

func TestAUserNeedsNoMoreThanThePermissionsThatAreNamed(t *testing.T) {
	server := redistest.Start(t)
	alone, _, _ := strings.Cut(store.Permissions, ",")
	server.Do(permitted(alone)...)
	s := connect(t, loginAt(server, "abide", "secret"), nil)
	everything(t, s)

	for _, p := range []string{"-hset", "-evalsha", "-publish"} {
		server.Do("ACL", "SETUSER", "abide", p)
		_, err := s.Exchange(t.Context(), []store.Batch{{
			Site: "site", Instance: "z", Asks: []store.Ask{fixed(1, 1)},
			Notes: []store.Note{{Key: p, Until: time.Now().Add(time.Hour)}},
		}})
		if err == nil || !strings.Contains(err.Error(), "permission") || !strings.Contains(err.Error(), "+"+p[1:]) {
			t.Errorf("%s: %v", p, err)
		}
		server.Do("ACL", "SETUSER", "abide", "+"+p[1:])
	}
}

// permitted makes a user with those permissions.
func permitted(list string) []any {
	command := []any{"ACL", "SETUSER", "abide", "reset", "on", ">secret"}
	for _, p := range strings.Fields(list) {
		command = append(command, p)
	}
	return command
}

// everything uses all that a store does.
func everything(t *testing.T, s *store.Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	heard, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- s.Listen(ctx, func(n store.News) {
			if !n.Began {
				heard <- n.Site
			}
		})
	}()
	defer func() {
		cancel()
		<-ended
	}()
	p, err := s.Pulse(ctx, store.Member{ID: "a", Name: "host"})
	if err != nil || p.Members != 1 {
		t.Errorf("got %+v, %v", p, err)
	}
	for n := int64(1); ; n++ { // until the listener is there
		var sites []store.Batch
		for i := range 8 {
			sites = append(sites, store.Batch{
				Site: fmt.Sprintf("site%d", i), Instance: "a", Asks: []store.Ask{fixed(uint64(n), 1)},
				Notes: []store.Note{{Key: "k", Until: time.Now().Add(time.Hour), N: n}},
			})
		}
		replies, err := s.Exchange(ctx, sites)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			if len(r.Notes) != 1 || r.Answers[0].Status != store.Done || p.Generation != "" && r.Generation != p.Generation {
				t.Fatalf("got %+v", r)
			}
		}
		select {
		case site := <-heard:
			if !strings.HasPrefix(site, "site") {
				t.Errorf("heard of %q", site)
			}
		default:
			continue
		}
		break
	}
	if err := s.Put(ctx, "kind", "a", []byte("x"), time.Time{}); err != nil {
		t.Error(err)
	}
	if all, err := s.All(ctx, "kind"); err != nil || string(all["a"]) != "x" {
		t.Errorf("got %q, %v", all, err)
	}
	for site := ""; ; {
		select {
		case site = <-heard:
		case <-ctx.Done():
			t.Fatal("nobody heard of a document")
		}
		if site == "" {
			return
		}
	}
}

func TestWhatIsOverLeavesTheServerByItself(t *testing.T) {
	server := redistest.Start(t)
	s := connect(t, addressOf(server), nil)
	replies, err := s.Exchange(t.Context(), []store.Batch{{
		Site: "site", Instance: "a",
		Asks: []store.Ask{
			{Key: "k", Kind: store.Fixed, Amount: 1, Window: time.Second, Seq: 1, Want: 1},
			{Key: "k", Kind: store.Rolling, Amount: 1, Window: time.Second, Slots: 4, Seq: 1, Want: 1},
			{Key: "k", Kind: store.Quota, Amount: 1, Seq: 1, Want: 1, Edges: edges(time.Now())},
		},
		Notes: []store.Note{{Key: "k", Until: time.Now().Add(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range replies[0].Answers {
		if a.Granted != 1 {
			t.Errorf("ask %d: %+v", i, a)
		}
	}
	keys := server.Do("KEYS", "abide:{site}:*").([]any)
	if len(keys) != 5 {
		t.Errorf("got %v", keys)
	}
	for _, key := range keys {
		if ttl := server.Do("PTTL", key).(int64); ttl < 60_000 || ttl > 32*24*3600_000 {
			t.Errorf("%v goes after %d ms", key, ttl)
		}
	}
}
