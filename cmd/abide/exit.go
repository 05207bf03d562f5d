package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Exit statuses of the process, except for abide run, which exits with its command's.
const (
	exitFailed = 1 // the command failed, or the answer is no
	exitUsage  = 2 // the command line or the configuration is wrong
)

// exit is an error with the exit status of the process. Without err nothing is printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(err error) error { return &exit{code: exitUsage, err: err} }

// arguments makes an error of a command's arguments a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if len(args) > 0 {
				if apart := detachedValue(cmd.Flags(), args[0]); apart != nil {
					return apart
				}
			}
			return usage(fmt.Errorf("%w; usage: %s", err, cmd.UseLine()))
		}
		return nil
	}
}
