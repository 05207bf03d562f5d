package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRunning(cmd, asJSON, func(ctx context.Context, text *bytes.Buffer, address string, api adminAPI) error {
				return oneStatus(ctx, text, address, api, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers: status, tokens and forecast")
	return cmd
}

// statusAnswers are the answers of the API as they came. Tokens and Forecast are null where
// a proxy has none.
type statusAnswers struct {
	Status   json.RawMessage `json:"status"`
	Tokens   json.RawMessage `json:"tokens"`
	Forecast json.RawMessage `json:"forecast"`
	Jobs     json.RawMessage `json:"-"`
	Advice   json.RawMessage `json:"-"`
}

// oneStatus prints the status of the abide whose admin listener is at address.
func oneStatus(ctx context.Context, text *bytes.Buffer, address string, api adminAPI, asJSON bool) error {
	said, err := askStatus(ctx, address, api)
	if err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(text)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(said)
	}
	var process status.Process
	var tokens status.Tokens
	var forecast []status.Forecast
	var jobs []status.Job
	var advice status.AdviceList
	if json.Unmarshal(said.Status, &process) != nil || json.Unmarshal(said.Tokens, &tokens) != nil || json.Unmarshal(said.Forecast, &forecast) != nil || json.Unmarshal(said.Jobs, &jobs) != nil || json.Unmarshal(said.Advice, &advice) != nil {
		return notAbide(address, "tells its status")
	}
	now := time.Now()
	process.Describe(text)
	if wrong := process.Troubles(tokens, forecast, jobs, advice.Advice, now); len(wrong) > 0 {
		status.DescribeTroubles(text, wrong)
		text.WriteString("\n")
	}
	process.DescribeStore(text, now)
	process.DescribeWaiting(text, now)
	process.DescribeFailed(text)
	process.DescribeSites(text)
	process.DescribeUnread(text)
	process.DescribeAdaptive(text)
	tokens.Describe(text, now)
	status.DescribeForecasts(text, forecast, now)
	return nil
}

// askStatus fetches the status of the process whose admin listener is at address.
func askStatus(ctx context.Context, address string, api adminAPI) (said statusAnswers, err error) {
	if said.Status, err = api.get(ctx, address, "status", "tells its status"); err != nil {
		return said, err
	}
	for path, where := range map[string]*json.RawMessage{"tokens": &said.Tokens, "forecast": &said.Forecast, "jobs": &said.Jobs, "advice": &said.Advice} {
		*where, err = api.get(ctx, address, path, "tells its status")
		if isAbsent(err) {
			*where, err = []byte("null"), nil // an older abide, or one without pools
		}
		if err != nil {
			return said, err
		}
	}
	if !isStatus(said.Status) || !json.Valid(said.Tokens) || !json.Valid(said.Forecast) {
		return said, notAbide(address, "tells its status")
	}
	return said, nil
}

// isStatus tells whether JSON is the status of an abide.
func isStatus(status []byte) bool {
	var known struct {
		Uptime *float64 `json:"uptime_seconds"`
	}
	return json.Unmarshal(status, &known) == nil && known.Uptime != nil
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
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			known := func(l status.SiteList) bool { return l.Sites != nil }
			return printAnswers(cmd, asJSON, "sites", "lists its sites", known, func(l status.SiteList, w io.Writer) { l.Describe(w, time.Now()) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers")
	return cmd
}
