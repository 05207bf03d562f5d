package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
)

// openFileStore is the File of the conformance tests. It cannot lose what it knows
// but with its file.
func openFileStore(t testing.TB, now func() time.Time) store.Store {
	f, err := store.OpenFile(t.Context(), filepath.Join(t.TempDir(), "abide.db"), store.FileOptions{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
