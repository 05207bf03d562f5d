package main

import "syscall"

// endWithParent has the kernel end the command when abide is killed, since without its
// proxy it could do nothing useful. That counts for the thread that starts the command,
// so the thread must last as long as the command.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }
