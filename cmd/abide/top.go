package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/abide-proxy/abide/admin/top"
	"github.com/abide-proxy/abide/policy"
)

// leastEvery bounds how often "abide top" asks.
const leastEvery = 100 * time.Millisecond

func topCommand() *cobra.Command {
	every, once := "1s", false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the sites of the running proxy in a live table",
		Long: `Top shows the sites of a running proxy in the terminal, and refreshes them each
second: requests and bytes per second, what waits, for how long and for which
limit, refusals, and which sites are paused or left alone. Above them are the
rates of all sites together and the quota that ends first. Keys sort, filter,
pause and resume sites, and show the requests that wait and the tokens; ? lists
the keys.

With --once, and where the output is no terminal, it prints the table once. With
NO_COLOR there are no colours. It ends with 1 when no proxy runs; when the proxy
goes away later, it waits for it.

It finds the proxy, or several, as abide status does. The live table is of one:
if several run, --admin says which.`,
		Example: `  abide top
  abide top --every 5s --admin 127.0.0.1:9128
  abide top --once | head -20`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			interval, err := policy.ParseDuration(every)
			if err != nil || interval < leastEvery {
				return usage(errors.New("--every takes a time from 100ms on, such as 1s or 5s"))
			}
			if once || !isTerminal(cmd.OutOrStdout()) || !isTerminal(cmd.InOrStdin()) {
				return printRunning(cmd, false, func(ctx context.Context, text *bytes.Buffer, at abideAt) error {
					return top.Print(ctx, text, at, at.Admin)
				})
			}
			list, api, err := findRunning(cmd)
			if err != nil {
				return err
			}
			api.warnGuessed(cmd, list)
			if len(list) > 1 {
				describeRunning(cmd.ErrOrStderr(), list)
				return errors.New("the live table is of one abide, and several are running; --admin ADDRESS says which")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return api.hint(top.Run(ctx, top.Options{
				Source: list[0], Address: list[0].Admin, Every: interval, Color: os.Getenv("NO_COLOR") == "",
			}))
		},
	}
	cmd.Flags().StringVar(&every, "every", every, "the `time` between two refreshes")
	cmd.Flags().BoolVar(&once, "once", false, "print the table once")
	return cmd
}

// isTerminal tells whether a stream of the process is a terminal that a table can be drawn on.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
