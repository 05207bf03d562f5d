package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestABuildShowsHowFarItIs runs tools/build with a program in the place of go.
func TestABuildShowsHowFarItIs(t *testing.T) {
	dir := t.TempDir()
	const program = "#!/bin/sh\nfor n in $(seq 120); do echo example.com/p$n; done >&2\necho 'main.go:1: wrong' >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("./tools/build", "./cmd/abide")
	build.Dir = root
	build.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := build.CombinedOutput()
	if build.ProcessState.ExitCode() != 3 {
		t.Errorf("it ends with %v, not as go does", err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	if want := "  50 packages are compiled, the last is example.com/p50\n  100 packages are compiled, the last is example.com/p100\nmain.go:1: wrong\n"; strings.Join(lines[1:], "") != want || !strings.HasPrefix(lines[0], "building abide: ") {
		t.Errorf("it prints\n%s", out)
	}
}
