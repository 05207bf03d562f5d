package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/abide-proxy/abide/proxy/ca"
)

// What TestMain makes.
var (
	abideBinary  string
	h2specBinary string
	originCA     *ca.CA
	originTrust  trust // for clients that see the origin's own certificate
)

// trust is the files that make clients trust a root.
type trust struct{ caFile, bundleFile string }

// buildFlags makes abide as these tests are made: with the race detector, or
// without.
var buildFlags = []string{"build"}

const buildTime = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(goClientVariable) != "" {
		os.Exit(goClient(os.Args[1:]))
	}
	dir, err := os.MkdirTemp("", "abide-clients-")
	if err == nil {
		err = build(dir)
	}
	if err == nil {
		err = openOriginCA(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// build makes what the tests start, in dir.
func build(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	abideBinary = filepath.Join(dir, "abide")
	h2specBinary = filepath.Join(dir, "h2spec")
	for _, args := range [][]string{
		append(buildFlags, "-o", abideBinary, "./cmd/abide"),
		{"build", "-modfile=tools/go.mod", "-o", h2specBinary, "github.com/summerwind/h2spec/cmd/h2spec"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %q: %w\n%s", args, err, out)
		}
	}
	return nil
}

// openOriginCA makes what vouches for the origins, with the files that clients
// of a tunnel need. They hold that root besides the system's, and what WriteBundle
// always writes: another CA's, which is that of no abide.
func openOriginCA(dir string) error {
	var err error
	if originCA, err = ca.Open("", ca.Options{}); err != nil {
		return err
	}
	originTrust.caFile = filepath.Join(dir, "origin.pem")
	if err := os.WriteFile(originTrust.caFile, originCA.PEM(), 0o600); err != nil {
		return err
	}
	unused, err := ca.Open("", ca.Options{Roots: originTrust.caFile})
	if err != nil {
		return err
	}
	_, originTrust.bundleFile, err = unused.WriteBundle(filepath.Join(dir, "trust"))
	return err
}
