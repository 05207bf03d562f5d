package tokens

import (
	"context"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

// A source may be slow, and whoever starts or reloads does not wait for it for ever.
func TestASourceThatTakesTooLongIsNotWaitedFor(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, pool := range []policy.Pool{
		{Name: "p", Dir: t.TempDir(), Put: bearer()},
		{Name: "p", File: file(t, "a", "s1\n"), Put: bearer()},
	} {
		if _, err := Load(over, pool, Surroundings{}); err == nil || !strings.Contains(err.Error(), "took too long") {
			t.Errorf("%v", err)
		}
	}
}
