package main

import (
	"io"
	"os"
	"sync"
)

// liveLine writes to a terminal with a status line at the end: one line that is replaced
// again and again, and erased before other lines are written. It is safe for concurrent use.
type liveLine struct {
	file *os.File

	mu    sync.Mutex // held while anything is written
	shown string     // the status line, "" without one
}

// liveLineOf is a liveLine for the terminal that w writes to, nil if w is not a terminal
// that can erase a line.
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

// eraseLine moves to the begin of the line and erases the line.
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
		text = truncated(text, width-1) // only one line can be erased
	}
	t.shown = text
	_, _ = t.file.WriteString(text) // an error does not matter
}

func (t *liveLine) erase() {
	if t.shown != "" {
		_, _ = t.file.WriteString(eraseLine)
		t.shown = ""
	}
}

// truncated is a text cut to at most n characters.
func truncated(text string, n int) string {
	letters := []rune(text)
	switch {
	case len(letters) <= n:
		return text
	case n < 1:
		return ""
	}
	return string(letters[:n-1]) + "…"
}
