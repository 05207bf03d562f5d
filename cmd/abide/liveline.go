package main

import (
	"io"
	"os"
	"sync"
)

// liveLine writes to a terminal that has a status line at its end: one line that is
// replaced again and again, and erased before anything else is written. It is safe
// for concurrent use.
type liveLine struct {
	file *os.File

	mu    sync.Mutex // orders what is written
	shown string     // the status line, "" without one
}

// liveLineOf is for the terminal that a writer writes to, nil if it is none that can
// erase a line.
func liveLineOf(w io.Writer) *liveLine {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if _, ok := columns(f); !ok {
		return nil
	}
	return &liveLine{file: f}
}

// eraseLine goes to the beginning of the line and erases it.
const eraseLine = "\r\x1b[K"

// Write writes above the status line.
func (t *liveLine) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	return t.file.Write(p)
}

// show replaces the status line; "" erases it.
func (t *liveLine) show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == t.shown {
		return
	}
	t.erase()
	if width, ok := columns(t.file); ok && width > 0 {
		text = cutTo(text, width-1) // a line that wraps cannot be erased
	}
	t.shown = text
	_, _ = t.file.WriteString(text) // nobody misses it
}

func (t *liveLine) erase() {
	if t.shown != "" {
		_, _ = t.file.WriteString(eraseLine)
		t.shown = ""
	}
}

// cutTo is a text of at most n characters.
func cutTo(text string, n int) string {
	letters := []rune(text)
	switch {
	case len(letters) <= n:
		return text
	case n < 1:
		return ""
	}
	return string(letters[:n-1]) + "…"
}
