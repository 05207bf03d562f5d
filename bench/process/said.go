package process

import (
	"bytes"
	"strings"
	"sync"
)

const (
	kept  = 20_000 // bytes of what a program said
	cited = 2_000  // of those in an error
)

// Said is what a program has written. Safe for concurrent use.
type Said struct {
	mu    sync.Mutex
	text  []byte // guarded by mu, as below: the end of it
	lines int
}

func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines += bytes.Count(p, []byte{'\n'})
	s.text = append(s.text, p...)
	if over := len(s.text) - kept; over > 0 {
		s.text = append(s.text[:0], s.text[over:]...)
	}
	return len(p), nil
}

// Lines is how many there were in all.
func (s *Said) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// End is the last of it.
func (s *Said) End() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.text))
}

// String is ready to be appended to an error.
func (s *Said) String() string {
	text := s.End()
	if text == "" {
		return ""
	}
	return "; it said: " + text[max(0, len(text)-cited):]
}
