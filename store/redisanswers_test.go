package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

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
