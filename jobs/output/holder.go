package output

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/abide-proxy/abide/internal/alive"
)

// holder is a lock that a process has beside a SQLite file from its first claim on. The
// system drops the lock when the process ends, so that its units need not wait for the ends
// of their leases.
type holder struct {
	base string // the SQLite file

	mu   sync.Mutex
	id   string // "": not locked yet
	lock *os.File
}

const holderSuffix = "-claims-"

// get locks, once, and removes the locks of processes that have ended.
func (h *holder) get() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id != "" {
		return h.id, nil
	}
	left, _ := filepath.Glob(globEscapes.Replace(h.base) + holderSuffix + "*")
	for _, path := range left {
		h.isOver(strings.TrimPrefix(path, h.base+holderSuffix))
	}
	for {
		id := rand.Text()
		f, err := os.OpenFile(h.base+holderSuffix+id, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", err
		}
		if err := alive.Lock(f, alive.First); err == nil && alive.IsAt(f, f.Name()) {
			h.id, h.lock = id, f
			return id, nil
		} else if err != nil && !errors.Is(err, alive.ErrLocked) {
			f.Close()
			os.Remove(f.Name())
			return "", err
		}
		f.Close() // another process took it for one that is left
	}
}

// isOver tells whether the process with a lock has ended, and removes the lock.
func (h *holder) isOver(id string) bool {
	path := h.base + holderSuffix + id
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	if alive.Lock(f, alive.First) != nil {
		return false
	}
	_ = os.Remove(path)
	return true
}

func (h *holder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lock != nil {
		_ = os.Remove(h.lock.Name())
		h.lock.Close()
		_ = os.Remove(h.lock.Name()) // where an open file cannot be removed
		h.lock = nil
	}
}

var globEscapes = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")
