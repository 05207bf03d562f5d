package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/proxy/accesslog"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy (what abide does without a command)",
		Long: `Serve runs the proxy until SIGINT or SIGTERM. What is in flight then has
timeouts.drain to finish; a second signal, a second later, stops at once.

SIGHUP and a change of the configuration file have it read again. SIGUSR1 has
the file of log.access opened again, after it was renamed. A file with
faults leaves the old configuration as it is, and the log says so, as do "abide
status" and the dashboard. So does a file that was emptied, unless --allow-empty
is given.`,
		RunE: serve,
	}
	addServeFlags(cmd.Flags())
	return cmd
}

// addServeFlags adds the flags of serve, which abide without a command has too.
func addServeFlags(flags *pflag.FlagSet) {
	flags.Bool("allow-empty", false, "take a configuration file that was emptied while abide runs, and drop its rules, pools and clients")
}

func serve(cmd *cobra.Command, _ []string) error {
	caught := catchSignals(cmd.Context())
	defer caught.close()

	// Starting may wait for a disk or a pipe, and serving for requests. Signals are
	// handled meanwhile.
	done := make(chan error, 1)
	go func() {
		a, err := start(cmd)
		if err == nil {
			reopen := a.proxy.ReopenAccessLog
			caught.reopen.Store(&reopen)
			unregister := a.register("serve")
			err = a.run(caught.stop, caught.reload)
			unregister()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-caught.stop.Done():
		if caught.reopen.Load() == nil {
			return nil // nothing was started yet
		}
	}
	select {
	case err := <-done:
		return err
	case sig := <-caught.again:
		return &exit{code: statusOf(sig), err: errors.New("stopped at once by a second signal; what was in flight is cut")}
	}
}

// start opens the program for the command line and prints the banner.
func start(cmd *cobra.Command) (*program, error) {
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, err
	}
	if s.allowEmpty, err = cmd.Flags().GetBool("allow-empty"); err != nil {
		return nil, err
	}
	p, err := s.load()
	if err != nil {
		return nil, err
	}
	log := newLog(cmd.ErrOrStderr(), p.Log)
	doubts, _ := openData(p) // startFaults has the error
	for _, one := range append(p.Warnings(), doubts...) {
		log.Warn(one)
	}
	warnOfProxyVariables(log, p)
	a, err := open(cmd.Context(), s, p, log)
	if err != nil {
		return nil, err
	}
	to := cmd.OutOrStdout()
	if p.Log.Access == accesslog.Stdout {
		to = cmd.ErrOrStderr() // standard output is for its lines alone
	}
	if p.Log.Format == "json" {
		newLog(to, p.Log).WithFields(a.addresses()).Info("abide " + versionText())
	} else {
		_, _ = io.WriteString(to, a.banner()) // an error does not prevent serving
	}
	a.systemd = systemd(os.Getenv("NOTIFY_SOCKET"))
	a.systemd.ready("serving on " + a.listener.Addr().String())
	return a, nil
}
