package overrides

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/abide-proxy/abide/store"
)

// kindOfLimits is the kind of the documents. Stores have it.
const kindOfLimits = "limits"

// unsaved are the documents that are to be written.
type unsaved struct {
	writing chan struct{} // has room for the one that writes
	mu      sync.Mutex
	set     map[string][]byte // :: site → the document; nil: it is to be removed
	n       uint64            // how often something was set
}

func newUnsaved() *unsaved {
	return &unsaved{writing: make(chan struct{}, 1), set: map[string][]byte{}}
}

func (u *unsaved) put(site string, text []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set[site] = text
	u.n++
}

func (u *unsaved) has(site string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.set[site]
	return ok
}

func (u *unsaved) changes() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// over puts what is to be written in the place of what was.
func (u *unsaved) over(saved map[string][]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for site, text := range u.set {
		if text == nil {
			delete(saved, site)
		} else {
			saved[site] = text
		}
	}
}

// write writes everything. What is set meanwhile is left to the caller that has set it.
func (u *unsaved) write(ctx context.Context, to store.Documents) error {
	select {
	case u.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.writing }()
	u.mu.Lock()
	set, n := maps.Clone(u.set), u.n
	u.mu.Unlock()
	for site, text := range set {
		if err := to.Put(ctx, kindOfLimits, site, text, time.Time{}); err != nil {
			return err
		}
		u.mu.Lock()
		if u.n == n || string(u.set[site]) == string(text) && (u.set[site] == nil) == (text == nil) {
			delete(u.set, site)
		}
		u.mu.Unlock()
	}
	return nil
}
