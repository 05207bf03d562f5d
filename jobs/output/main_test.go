package output_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

// postgres is started once.
var postgres *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if postgres, err = pgtest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := postgres.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}
