package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store"
)

// hostileRedis accepts connections and answers each command by the function, which gets the
// command's name in upper case. It returns the address.
func hostileRedis(t testing.TB, answer func(command string) string) *policy.Store {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					name, err := readCommand(r)
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, answer(strings.ToUpper(name))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &policy.Store{Hosts: []string{l.Addr().String()}}
}

// readCommand reads one command as clients send it, and returns its name.
func readCommand(r *bufio.Reader) (name string, err error) {
	number := func() (n int, err error) {
		line, err := r.ReadString('\n')
		if err != nil || len(line) < 4 {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	parts, err := number()
	for i := 0; i < parts && err == nil; i++ {
		var size int
		if size, err = number(); err != nil {
			break
		}
		text := make([]byte, size+2)
		if _, err = io.ReadFull(r, text); i == 0 {
			name = string(text[:size])
		}
	}
	return name, err
}

// useAll calls all that a store does, and returns the errors. ctx bounds it.
func useAll(ctx context.Context, s *store.Redis) error {
	_, err1 := s.Exchange(ctx, []store.Batch{{Site: "a", Instance: "i", Asks: []store.Ask{fixed(1, 1)}}, {Site: "b", Instance: "i"}})
	_, err2 := s.Pulse(ctx, store.Member{ID: "i", Name: "host"})
	_, err3 := s.Members(ctx)
	_, err4 := s.All(ctx, "kind")
	err5 := s.Put(ctx, "kind", "a", []byte("x"), time.Time{})
	s.Warnings(ctx)
	return errors.Join(err1, err2, err3, err4, err5)
}

func TestTheListenerSurvivesAnythingThatAServerAnswers(t *testing.T) {
	for _, answer := range []string{"*0\r\n", "*1\r\n:1\r\n", "*1\r\n$9\r\nsubscribe\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n$1\r\nx\r\n", "*2\r\n$7\r\nmessage\r\n:1\r\n", "*1\r\n$4\r\npong\r\n", "%1\r\n+a\r\n+b\r\n", ":1\r\n"} {
		s, err := store.NewRedis(hostileRedis(t, func(command string) string {
			if command == "SUBSCRIBE" {
				return answer
			}
			return "-ERR unknown command\r\n"
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Listen(t.Context(), func(store.News) {})
		if err == nil || t.Context().Err() != nil {
			t.Errorf("%q: %v", answer, err)
		}
		s.Close()
	}
}

func TestASentinelMayAnswerAnything(t *testing.T) {
	named := "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"
	news := "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$4\r\nmain\r\n"
	for _, answers := range [][2]string{
		{"*0\r\n", ""},
		{"*1\r\n$1\r\na\r\n", ""},
		{"*3\r\n:1\r\n:2\r\n:3\r\n", ""},
		{":1\r\n", ""},
		{"*2147483646\r\n", ""},
		{"$-1\r\n", ""},
		{named, "*0\r\n"},
		{named, "*1\r\n:1\r\n"},
		{named, news},
	} {
		at := hostileRedis(t, func(command string) string {
			switch command {
			case "SENTINEL":
				return answers[0]
			case "SUBSCRIBE":
				return answers[1]
			}
			return "-ERR unknown command\r\n"
		})
		at.Kind, at.Master = "redis+sentinel", "main"
		s, err := store.NewRedis(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := useAll(t.Context(), s); err == nil {
			t.Errorf("%q: no error", answers)
		}
		s.Close()
	}
}

func TestAnAnswerThatOnlyAnnouncesItsSizeTakesNoMemory(t *testing.T) {
	for _, answer := range []string{
		"%2147483647\r\n", "*2147483646\r\n", "$2147483640\r\n", "~2147483647\r\n", ">2147483647\r\n", "=2147483640\r\n",
		strings.Repeat("*1000000\r\n", 30), strings.Repeat("*1\r\n", 3_000_000), "|2147483647\r\n", strings.Repeat("$", 10_000_000), "+" + strings.Repeat("x", 10_000_000) + "\r\n",
	} {
		for _, at := range []string{"HELLO", "EVALSHA", "HGETALL", "INFO"} {
			s, err := store.NewRedis(hostileRedis(t, func(command string) string {
				if command == at {
					return answer
				}
				return "-NOSCRIPT unknown command\r\n"
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = useAll(t.Context(), s)
			runtime.ReadMemStats(&after)
			s.Close()
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 300 || err == nil || len(err.Error()) > 4096 {
				t.Errorf("%.20q to %s: %d MB, %.300v", answer, at, took, err)
			}
		}
	}
}

func TestAnErrorOfAServerIsOnePrintableLine(t *testing.T) {
	s, err := store.NewRedis(hostileRedis(t, func(string) string { return "-OOM \x1b]0;title\x07\x1b[2J" + strings.Repeat("x", 9000) + "\r\n" }), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Pulse(t.Context(), store.Member{ID: "i"})
	if text := fmt.Sprint(err); !store.Answered(err) || !strings.Contains(text, "maxmemory") || len(text) > 700 || strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("%v, %q", store.Answered(err), text)
	}
}

// FuzzRedisServer gives the whole client the bytes of a server. The first byte says which of
// the commands gets them; the others are refused.
func FuzzRedisServer(f *testing.F) {
	commands := []string{"HELLO", "EVALSHA", "EVAL", "HGETALL", "INFO", "CONFIG", "SUBSCRIBE", "SELECT", "CLUSTER", "COMMAND", "SENTINEL"}
	for i := range commands {
		for _, answer := range []string{
			"*0\r\n", "%2147483647\r\n", "*2147483646\r\n", "$2147483640\r\n", "$-1\r\n", "*-1\r\n", ":1\r\n", "+OK\r\n", "\r\n", "*3\r\n*1\r\n$1\r\na\r\n:1\r\n",
			"*4\r\n$1\r\ng\r\n:1\r\n*0\r\n*0\r\n", "*5\r\n$1\r\ng\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*1\r\n:1\r\n",
			"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:0\r\n",
		} {
			f.Add(byte(i), answer)
			f.Add(byte(170+len(commands)-170%len(commands)+i), answer)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, answer string) {
		at := hostileRedis(t, func(command string) string {
			if command == commands[int(which)%len(commands)] {
				return answer
			}
			return "-NOSCRIPT no\r\n"
		})
		switch {
		case which >= 170:
			at.Kind, at.Master = "redis+sentinel", "main"
		case which >= 85:
			at.Kind = "redis+cluster"
		}
		s, err := store.NewRedis(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_ = useAll(ctx, s)
		_ = s.Listen(ctx, func(store.News) {})
	})
}
