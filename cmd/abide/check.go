package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/tokens"
)

func checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and print what it means",
		Long: `Check reads a configuration as "abide serve" would, flags and environment
included, and the tokens, certificates, CA and state that it names, and prints
what it means: what is written, the rules first, then what is built in. It ends
with 1 when something is wrong, each fault on a line of its own, with its file
and line where it has one. It changes nothing, takes no port and asks no store:
whether a port is free, and the store lets abide in, is known at the start. It
never prints a secret. FILE can be -, for standard input.`,
		Example: `  abide check
  abide check --json | jq .faults`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return check(cmd, args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print faults, warnings, settings and what they mean as JSON")
	return cmd
}

// checked is the result of a check.
type checked struct {
	Valid    bool              `json:"valid"`
	File     string            `json:"file"`             // "" without one
	Looked   []string          `json:"looked,omitempty"` // the places of files, of which the first that exists is read; none: it was named
	Faults   []status.Fault    `json:"faults"`
	Warnings []string          `json:"warnings"`
	Settings map[string]string `json:"settings"` // of settings that are one value, without secrets
	Means    []policy.Part     `json:"means"`
}

func check(cmd *cobra.Command, args []string, asJSON bool) error {
	s, err := sourceOf(cmd)
	if len(args) == 1 {
		s, err = sourceAt(cmd, args[0]), nil
	}
	if err != nil {
		return err
	}
	found, err := checkSource(cmd.Context(), s)
	if s.found {
		found.Looked = usualFiles(os.Getenv)
	}
	if asJSON {
		if err != nil {
			if found.Faults = admin.FaultsOf(err); len(found.Faults) == 0 {
				found.Faults = []status.Fault{{Text: status.ErrorLine(err)}}
			}
			err = &exit{code: exitFailed}
		}
		return errors.Join(printJSON(cmd.OutOrStdout(), found), err)
	}
	var known *exit
	if errors.As(err, &known) {
		return err
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		return &exit{code: exitFailed}
	}
	for _, one := range found.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", one)
	}
	if len(found.Looked) > 0 {
		found.Means[0].Says = append(found.Means[0].Says, "looked for "+strings.Join(found.Looked, ", "))
	}
	policy.WriteParts(cmd.OutOrStdout(), found.Means)
	return nil
}

// checkSource reads a configuration and what it names. The error has all faults.
func checkSource(ctx context.Context, s *source) (checked, error) {
	c := checked{File: s.name(), Faults: []status.Fault{}, Warnings: []string{}}
	p, err := s.load()
	if err != nil {
		return c, err
	}
	pools := readPools(ctx, p)
	if len(pools.faults) > 0 {
		return c, pools.faults
	}
	doubts, err := checkCA(p)
	if err = errors.Join(startFaults(p), err); err != nil {
		return c, err
	}
	c.Valid, c.Settings, c.Means = true, p.Settings(), p.Parts(pools.labels)
	c.Warnings = slices.Concat(c.Warnings, p.Warnings(), pools.warnings, doubts, foreignAddresses(p))
	return c, nil
}

// checkCA reads the CA that the operator gave, as abide does at its start, and returns
// warnings.
func checkCA(p *policy.Policy) (doubts []string, err error) {
	if !p.CA.Given() {
		return nil, nil
	}
	_, err = ca.Open("", ca.Options{
		Names: p.InterceptNames(), Cert: p.CA.Cert, Key: p.CA.Key,
		Notice: func(text string) { doubts = append(doubts, text) },
	})
	return doubts, err
}

// poolTokens are the tokens of the pools, without their secrets.
type poolTokens struct {
	labels   map[string][]string // :: pool → its tokens, in the order of the source
	warnings []string
	faults   policy.Faults
}

// readPools reads the tokens of all pools, as abide does at its start.
func readPools(ctx context.Context, p *policy.Policy) poolTokens {
	found := poolTokens{labels: map[string][]string{}}
	all, err := dispatch.ReadTokens(ctx, p, os.LookupEnv)
	errors.As(err, &found.faults)
	for i := range p.Pools {
		pool := &p.Pools[i]
		loaded := all[pool.Name]
		if loaded == nil {
			continue
		}
		for _, w := range loaded.Warnings {
			found.warnings = append(found.warnings, w.String())
		}
		labels, err := labelsOf(*pool, loaded)
		if err != nil {
			found.faults = append(found.faults, tokens.FaultsAt(p, pool, err)...)
		}
		found.labels[pool.Name] = labels
	}
	return found
}

// labelsOf are the labels of a pool's tokens, with made-up ones for tokens without a label.
func labelsOf(config policy.Pool, loaded *tokens.Loaded) ([]string, error) {
	pool, err := tokens.New(time.Now(), config, loaded, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var labels []string
	for _, t := range pool.Set().Tokens() {
		labels = append(labels, t.Label())
	}
	return labels, nil
}
