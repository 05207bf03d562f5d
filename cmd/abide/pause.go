package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/status"
)

// sitePath is the path of the API at which something is done with a site.
func sitePath(site, what string) string { return "sites/" + url.PathEscape(site) + "/" + what }

func pauseCommand() *cobra.Command {
	var ask status.PauseAsk
	cmd := &cobra.Command{
		Use:   "pause [flags] SITE",
		Short: "Let no request go to a site until it is resumed",
		Long: `Pause asks the running proxy to hold all requests for a site. They wait, as for a
limit: until the site is resumed, until the time of --for is over, or until they
have waited for as long as queue.wait or Abide-Max-Wait allows. Requests that are
under way end. A tunnel whose https abide does not open waits before it begins; one
that has begun goes on.

The pause outlives a restart. With a shared store it holds in the whole fleet.
SITE is a site as abide sites lists it. Pause finds the proxy, or several, as abide
status does.`,
		Example: `  abide pause api.example.com
  abide pause api.example.com --for 2h --reason "they migrate their database"`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return changePause(cmd, args[0], "pause", ask) },
	}
	cmd.Flags().StringVar(&ask.For, "for", "", "end the pause after this `time`, such as 30m or 2h")
	cmd.Flags().StringVar(&ask.Reason, "reason", "", "`text` that is shown where requests wait")
	return cmd
}

func resumeCommand() *cobra.Command {
	return siteCommand("resume", "Let requests go to a site that was paused",
		`Resume ends a pause of "abide pause": what waits goes within the limits of the site.
It ends with 1 where the site is not paused.`)
}

func tryCommand() *cobra.Command {
	return siteCommand("try", "Ask a site that fails at once",
		`Try asks the running proxy to send one request at once to a site that is left alone
or that answers with a failure to each: the first that waits, or else the next one.
When it succeeds, the others follow. A pause that the site has asked for (Retry-After)
stays. It ends with 1 where the site does not fail.`)
}

// siteCommand is a command that has the running proxy do what it is called with a site.
func siteCommand(what, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: what + " SITE", Short: short, Long: long, Example: "  abide " + what + " api.example.com",
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return changePause(cmd, args[0], what, nil) },
	}
}

func forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget HOST",
		Short: "Forget limits that were learned of a host",
		Long: `Forget drops what was learned of the sites of a host: limits that it announced and
those that were found by refusals. It prints each of them. They are learned again
from the next answers. What was spent of limits of the configuration stays, and so
do tokens that are put away.

HOST is a host, on whichever port, or a site as abide sites lists it. Forget finds
the proxy, or several, as abide status does. If none runs, it changes the state file
that the last one has left. It ends with 1 where nothing was learned of the host.`,
		Example: `  abide forget api.example.com`,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := changeSite(cmd, args[0], "forget", nil, func(w io.Writer, list []status.Forgotten, _ abideAt) { status.DescribeForgotten(w, list) })
			return orSaved(cmd, err, true, func(a adminProcess) error {
				list, err := a.proxy.Forget(args[0])
				if err != nil {
					return err
				}
				status.DescribeForgotten(cmd.OutOrStdout(), list)
				return nil
			})
		},
	}
}

// changePause pauses, resumes or tries a site at each running abide, and prints how the site is then.
func changePause(cmd *cobra.Command, site, what string, ask any) error {
	return changeSite(cmd, site, what, ask, func(w io.Writer, sitePause status.SitePause, of abideAt) { // try answers with the whole site
		state := map[string]string{"pause": "is not paused", "resume": "is resumed", "try": "is asked by one request at once"}[what] // a short pause may be over
		if sitePause.Paused && sitePause.Pause != nil {
			state = "is " + sitePause.Title()
		}
		if sitePause.Warning != "" {
			state += "; " + sitePause.Warning
		}
		fmt.Fprintf(w, "%s: %s %s\n", status.Line(of.title()), status.Line(sitePause.Site), status.Line(state))
	})
}

// changeSite changes a site at each running abide. say prints an answer. An abide that has nothing to change is no failure
// where another has.
func changeSite[T any](cmd *cobra.Command, site, what string, ask any, say func(w io.Writer, answer T, of abideAt)) error {
	var failed error // without those that have nothing to change
	answered, withAbsent := askRunning(cmd, nil, true, func(ctx context.Context, at abideAt) error {
		var answer T
		_, err := at.ask(ctx, http.MethodPost, sitePath(site, what), ask, &answer)
		if err == nil {
			say(cmd.OutOrStdout(), answer, at)
		}
		if refused, ok := errors.AsType[*problem](err); !ok || refused.status != http.StatusNotFound { // or another one that shares the pause has just resumed it
			failed = errors.Join(failed, at.hint(err))
		}
		return err
	})
	if answered {
		return failed
	}
	return withAbsent
}
