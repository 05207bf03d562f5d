package lease_test

import (
	"flag"
	"os"
	"testing"
)

// racedChecks are the checks of a property under the race detector, which costs these
// ten times what they cost without, and finds nothing where nothing is concurrent.
// tools/test runs them all without it.
const racedChecks = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if raced {
		if err := flag.Set("rapid.checks", racedChecks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
