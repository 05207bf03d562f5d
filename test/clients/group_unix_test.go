//go:build unix

package clients

import (
	"os/exec"
	"syscall"
)

// together puts what cmd starts into a group of its own, which ends as a whole
// when the context does: a script's curl must not outlive the script.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
