package process

import (
	"os/exec"
	"syscall"
)

// tie has a program end with this one, however that ends.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
