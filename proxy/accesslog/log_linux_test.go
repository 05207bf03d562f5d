package accesslog

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestLinesForAFullDiskAreCounted(t *testing.T) {
	l, ended := started(t)
	const n = 300 // more than the buffer has room for
	for range n {
		l.Add(lineOf("/"+strings.Repeat("x/", 500)), Target{To: "/dev/full"})
	}
	said := ended()
	if strings.Count(said, "its lines are lost: write /dev/full: no space left") != 1 || l.Dropped.Load() != n {
		t.Errorf("%d dropped: %s", l.Dropped.Load(), said)
	}
}

func TestAPipeWithoutAReaderDoesNotHoldTheEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, ended := started(t)
	l.Add(lineOf("/"), Target{To: pipe})
	for len(l.lines) > 0 {
		runtime.Gosched()
	}
	if said := ended(); !strings.Contains(said, "the last ones are lost") {
		t.Error(said)
	}
	// The goroutine that opens the pipe ends with a reader.
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if text, err := io.ReadAll(reader); err != nil || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("%q, %v", text, err)
	}
}
