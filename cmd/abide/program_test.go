package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/policy"
)

// embedded is a program without its process: free ports, nothing kept.
func embedded(t *testing.T) *program {
	t.Helper()
	s := &source{flags: map[string]string{"listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "data": "none"}}
	p, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	a, err := open(t.Context(), s, p, newLog(io.Discard, p.Log))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAProgramLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	a := embedded(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	reload := make(chan struct{})
	go func() { ended <- a.run(ctx, reload) }()
	reload <- struct{}{} // so it follows by now
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, l := range []net.Listener{a.listener, a.admin} {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
			t.Errorf("%s still takes connections", l.Addr())
		}
	}
	if _, err := a.reload(); err != errStopping {
		t.Errorf("a reload after the end: %v", err)
	}
}

// heard is closed when a text is written to a log.
type heard struct {
	text string
	done chan struct{}
	once sync.Once
}

func (h *heard) Write(line []byte) (int, error) {
	if strings.Contains(string(line), h.text) {
		h.once.Do(func() { close(h.done) })
	}
	return len(line), nil
}

// TestTokensThatChangeDuringTheStartAreRead: what changes after it was read and before the first look at it is not lost.
func TestTokensThatChangeDuringTheStartAreRead(t *testing.T) {
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "abide.yaml"), filepath.Join(dir, "tokens.txt")
	write(t, tokens, "aaaaaaaaaa\nbbbbbbbbbb\n")
	write(t, file, "pools: {p: {file: "+tokens+"}}\nsites: [{host: api.test, pool: p}]\n")
	s := &source{path: file, flags: map[string]string{"listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "data": "none"}}
	p, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	log := &heard{text: "tokens of pool p changed", done: make(chan struct{})}
	a, err := open(t.Context(), s, p, newLog(log, p.Log))
	if err != nil {
		t.Fatal(err)
	}
	write(t, tokens, "aaaaaaaaaa\ncccccccccc\n")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx, nil) }()
	<-log.done
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAProgramThatStopsBeforeItStartsEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := embedded(t).run(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestEveryFlagIsASetting(t *testing.T) {
	known := map[string]bool{}
	for _, one := range policy.Keys() {
		known[one.Name] = true
	}
	for _, key := range flagged {
		flag := flagOf(key)
		if !known[key] {
			t.Errorf("--%s is for %s, which is no setting that works", flag, key)
		}
	}
}
