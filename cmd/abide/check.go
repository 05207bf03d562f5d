package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/tokens"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and print what it means",
		Long: `Check reads a configuration as "abide serve" would, flags and environment
included, and the tokens, certificates, CA and state that it names, and prints
what it means. It ends with 1 when something is wrong, each fault on a line of
its own, with its file and line where it has one. It changes nothing, takes no
port and asks no store: whether a port is free, and the store lets abide in, is
known at the start. It never prints a secret.`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: check,
	}
}

func check(cmd *cobra.Command, args []string) error {
	s, err := sourceOf(cmd)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		s.path = args[0]
	}
	p, err := s.load()
	var faults policy.Faults
	if errors.As(err, &faults) {
		fmt.Fprintln(cmd.ErrOrStderr(), faults)
		return &exit{code: exitFailed}
	}
	if err != nil {
		return err
	}
	found := readPools(cmd.Context(), p)
	if len(found.faults) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), found.faults)
		return &exit{code: exitFailed}
	}
	doubts, err := checkCA(p)
	if err = errors.Join(startFaults(p), err); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		return &exit{code: exitFailed}
	}
	found.warnings = append(append(found.warnings, doubts...), foreignAddresses(p)...)
	for _, one := range append(p.Warnings(), found.warnings...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", one)
	}
	p.DescribeWith(cmd.OutOrStdout(), found.labels)
	return nil
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
