package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/status"
)

func sitesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sites",
		Short: "List the sites of the running proxy: requests, bytes, what waits",
		Long: `Sites asks the running proxy, once, and prints a line for each site, those with
the most bytes first: its requests and those of the last minute, the bytes
received from it and sent to it, how many requests wait, for which limit most of
them do, and its breaker. It ends with 1 when no proxy runs.

It finds the proxy, or several, as abide status does.`,
		Example: `  abide sites
  abide sites --json | jq '.sites[] | select(.held > 0) | .site'`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return printSites(cmd, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers")
	return cmd
}

func printSites(cmd *cobra.Command, asJSON bool) error {
	var text bytes.Buffer
	_, failed := askRunning(cmd, &text, asJSON, func(ctx context.Context, address string, api adminAPI) error {
		return sitesOf(ctx, &text, address, api, asJSON)
	})
	if _, err := text.WriteTo(cmd.OutOrStdout()); err != nil {
		return err
	}
	return failed
}

// sitesOf prints the sites of the abide whose admin listener is at address.
func sitesOf(ctx context.Context, text *bytes.Buffer, address string, api adminAPI, asJSON bool) error {
	const does = "lists its sites"
	body, err := api.get(ctx, address, "sites", does)
	if err != nil {
		return err
	}
	var list status.SiteList
	if json.Unmarshal(body, &list) != nil || list.Sites == nil {
		return notAbide(address, does)
	}
	if asJSON {
		text.Write(body)
	} else {
		list.Describe(text, time.Now())
	}
	return nil
}
