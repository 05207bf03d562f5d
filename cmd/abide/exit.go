package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/policy"
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

// detachedValue is an error where the first argument is the value of a switch, such as --log-access, and
// stands apart from the switch; else nil.
func detachedValue(flags *pflag.FlagSet, args []string) (err error) {
	if len(args) == 0 || !slices.Contains([]string{"on", "off", "true", "false"}, args[0]) {
		return nil
	}
	flags.Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.String() == f.NoOptDefVal && err == nil {
			err = usage(fmt.Errorf("%q stands apart from --%s; write --%s=%s", args[0], f.Name, f.Name, args[0]))
		}
	})
	return err
}

// unknownFlag adds to an error about a flag that does not exist which one may be meant.
func unknownFlag(flags *pflag.FlagSet, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return errors.New(err.Error() + policy.DidYouMean("--"+unknown.GetSpecifiedName(), names))
}

// arguments makes an error of a command's arguments a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if apart := detachedValue(cmd.Flags(), args); apart != nil {
				return apart
			}
			text := strings.NewReplacer("accepts ", "it takes ", " arg(s), received ", " argument(s), and there are ").Replace(err.Error())
			return usage(fmt.Errorf("%s; usage: %s", text, cmd.UseLine()))
		}
		return nil
	}
}

// noCommand is the error for a name that is no command.
func noCommand(root *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q", name)
	if like := root.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usage(errors.New(text + ` ("abide help" lists them)`))
}

// notFor is an error where a flag is given that is not for another one, by which each line of a file has its request.
func notFor(cmd *cobra.Command, other string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s is not for --%s: there each line has its request", name, other))
		}
	}
	return nil
}
