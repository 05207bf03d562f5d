package upstream

import (
	"testing"

	"go.uber.org/goleak"
)

// A test server of net/http that closes early waits half a second by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
