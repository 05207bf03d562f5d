package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestASecondFailureOfATestFailsTheRun runs tools/unsteady on reports of two runs.
func TestASecondFailureOfATestFailsTheRun(t *testing.T) {
	list, report := filepath.Join(t.TempDir(), "list"), filepath.Join(t.TempDir(), "report")
	run := func(text string) (string, error) {
		if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(filepath.Join(root, "tools/unsteady"), list, report, report+".missing").CombinedOutput()
		return string(out), err
	}
	if out, err := run(""); err != nil || out != "" {
		t.Errorf("nothing failed: %v, %q", err, out)
	}
	first := "abide/proxy.TestA: 2 runs, 1 failures\nabide/proxy.TestA/sub: 1 runs, 1 failures\n"
	if out, err := run(first); err != nil || !strings.Contains(out, "  abide/proxy.TestA\n") {
		t.Errorf("the first failure: %v, %q", err, out)
	}
	if out, err := run("abide/proxy.TestAB: 2 runs, 1 failures\n"); err != nil {
		t.Errorf("another test: %v, %q", err, out)
	}
	if out, err := run(first); err == nil || !strings.Contains(out, "TestA/sub") {
		t.Errorf("the second failure: %v, %q", err, out)
	}
	want := "abide/proxy.TestA\nabide/proxy.TestA/sub\nabide/proxy.TestAB\n"
	if got := string(read(t, list)); got != want {
		t.Errorf("the list is %q, want %q", got, want)
	}
}
