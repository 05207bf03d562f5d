package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/status"
)

func statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print how the running proxy is: sites, tokens, quotas, what waits",
		Long: `Status asks the running proxy, once, and prints how it is; what is wrong, as on
its page; what keeps its budgets, with the other instances that do; what
requests wait for; which answers failed since the start; its busiest sites; each
token of its pools, what that has left of which limit and when there is more, or
for pools of more than ten how many are in which state, why, and until when;
limits that sites announce to requests without a token; and how long quotas last
at the present rate. It ends with 1 when no proxy runs.

It asks the proxy at --admin, if that is given; with --data those alone that run
with that directory. Otherwise it asks the one at the configuration's
admin.listen and all that run with the same data directory, those of "abide run"
included, and lists them if there are several: with --json in a line each.

Faults in the configuration file do not matter, as long as its admin and data
can be read, or --admin, or $ABIDE_ADMIN, says where the proxy is. The token of
the admin listener is that of $ABIDE_ADMIN_TOKEN, else of the file.`,
		Example: `  abide status
  abide status --admin 127.0.0.1:9128
  abide status --json | jq '.tokens.pools[].tokens[] | {label, state}'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRunning(cmd, asJSON, func(ctx context.Context, text *bytes.Buffer, at abideAt) error {
				said, err := askStatus(ctx, at)
				if err != nil {
					return err
				}
				if asJSON {
					encoder := json.NewEncoder(text)
					encoder.SetEscapeHTML(false)
					return encoder.Encode(said)
				}
				now := time.Now()
				said.process.Describe(text)
				if wrong := said.process.Troubles(said.tokens, said.forecast, said.jobs, said.advice, now); len(wrong) > 0 {
					status.DescribeList(text, "what is wrong", wrong)
					text.WriteString("\n")
				}
				said.process.DescribeStore(text, now)
				said.process.DescribeWaiting(text, now)
				status.DescribeList(text, "failed since the start", said.process.Sentences("clients")) // the answers of abide itself last
				said.process.DescribeSites(text)
				said.process.DescribeUnread(text)
				said.process.DescribeAdaptive(text)
				said.tokens.Describe(text, now)
				status.DescribeForecasts(text, said.forecast, now)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers: status, tokens and forecast")
	return cmd
}

// statusAnswers are the answers of the API, those that --json prints also as they came. Tokens and Forecast are null
// where a proxy has none.
type statusAnswers struct {
	Status   json.RawMessage `json:"status"`
	Tokens   json.RawMessage `json:"tokens"`
	Forecast json.RawMessage `json:"forecast"`

	process  status.Process
	tokens   status.Tokens
	forecast []status.Forecast
	jobs     []status.Job
	advice   status.AdviceList
}

// askStatus fetches the status of an abide.
func askStatus(ctx context.Context, at abideAt) (said statusAnswers, err error) {
	var unshown json.RawMessage
	for _, one := range []struct {
		path string
		came *json.RawMessage
		to   any
	}{
		{"status", &said.Status, &said.process},
		{"tokens", &said.Tokens, &said.tokens},
		{"forecast", &said.Forecast, &said.forecast},
		{"jobs", &unshown, &said.jobs},
		{"advice", &unshown, &said.advice},
	} {
		*one.came, err = at.ask(ctx, http.MethodGet, one.path, nil, one.to)
		if err != nil && (one.path == "status" || !isAbsent(err)) { // an older abide, or one without pools
			return said, err
		}
	}
	return said, nil
}

func sitesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sites",
		Short: "List the sites of the running proxy: requests, bytes, what waits",
		Long: `Sites asks the running proxy, once, and prints a line for each site, those with
the most bytes first: its requests and those of the last minute, the bytes
received from it and sent to it (headers and TLS included), how many requests
wait, for which limit most of them do, and its breaker. It ends with 1 when no
proxy runs.

It finds the proxy, or several, as abide status does.`,
		Example: `  abide sites
  abide sites --json | jq '.sites[] | select(.held > 0) | .site'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAnswers(cmd, asJSON, "sites", func(l status.SiteList, w io.Writer) { l.Describe(w, time.Now()) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers")
	return cmd
}
