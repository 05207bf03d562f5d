package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/internal/lists"
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
with 2 when something is wrong, each fault on a line of its own, with its file
and line where it has one; warnings do not count. It changes nothing, takes no
port and asks no store: whether a port is free, and the store lets abide in, is
known at the start. Whether a running abide would take the file, "abide reload"
says. It never prints a secret. FILE can be -, for standard input.`,
		Example: `  abide check
  abide check --json | jq .faults`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
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
					err = &exit{code: exitUsage}
				}
				return errors.Join(printJSON(cmd.OutOrStdout(), found), err)
			}
			if err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return &exit{code: exitUsage}
			}
			for _, one := range found.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", one)
			}
			if len(found.Looked) > 0 {
				found.Means[0].Says = append(found.Means[0].Says, "looked for "+strings.Join(found.Looked, ", "))
			}
			policy.WriteParts(cmd.OutOrStdout(), found.Means)
			return nil
		},
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

// checkSource reads a configuration and what it names. The error has all faults.
func checkSource(ctx context.Context, s *source) (checked, error) {
	c := checked{File: s.name, Faults: []status.Fault{}, Warnings: []string{}}
	p, err := s.load()
	if err != nil {
		return c, err
	}
	labels, warnings, faults := readPools(ctx, p)
	if len(faults) > 0 {
		return c, faults
	}
	var doubts []string
	if p.CA.Given() { // it is read as abide does at its start
		_, err = ca.Open("", ca.Options{
			Names: p.InterceptNames(), Cert: p.CA.Cert, Key: p.CA.Key,
			Notice: func(text string) { doubts = append(doubts, text) },
		})
	}
	open, _ := openData(p) // startFaults has the error
	if err = errors.Join(startFaults(p), err); err != nil {
		return c, err
	}
	c.Valid, c.Settings, c.Means = true, p.Settings(), p.Parts(labels)
	c.Warnings = append(c.Warnings, slices.Concat(p.Warnings(), warnings, doubts, foreignAddresses(p), open)...)
	return c, nil
}

// openData refuses a data directory in which every user of the machine can exchange files, such as the
// state and the CA. A mounted volume, as a pod has it, belongs to those who mounted it: it is warned of.
func openData(p *policy.Policy) (warnings []string, err error) {
	info, err := os.Stat(p.Data)
	if err != nil || runtime.GOOS == "windows" || !info.IsDir() || info.Mode()&0o002 == 0 || info.Mode()&os.ModeSticky != 0 {
		return nil, nil // who opens the directory reports what is wrong with it
	}
	text := fmt.Sprintf("data: every user of this machine can exchange files in %s (mode %04o), such as the state and the CA: chmod 700 it", p.Data, info.Mode().Perm())
	if isMountPoint(p.Data, info) {
		return []string{text}, nil
	}
	return nil, errors.New(text)
}

// readPools reads the tokens of all pools, as abide does at its start. labels has the tokens of each
// pool, in the order of its source.
func readPools(ctx context.Context, p *policy.Policy) (labels map[string][]string, warnings []string, faults policy.Faults) {
	labels = map[string][]string{}
	all, err := dispatch.ReadTokens(ctx, p, os.LookupEnv)
	errors.As(err, &faults)
	for i := range p.Pools {
		pool := &p.Pools[i]
		loaded := all[pool.Name]
		if loaded == nil {
			continue
		}
		warnings = append(warnings, lists.Map(loaded.Warnings, policy.Fault.Error)...)
		made, err := tokens.New(time.Now(), *pool, loaded, nil) // it labels tokens that have no label
		if err != nil {
			faults = append(faults, tokens.FaultsAt(p, pool, err)...)
			continue
		}
		accounts := made.Labels()
		labels[pool.Name] = lists.Map(made.Set().Tokens(), func(t *tokens.Token) string {
			if all := accounts[t.Budget()]; strings.HasPrefix(all, t.Label()+", ") {
				return t.Label() + " (one account: " + all + ")"
			}
			return t.Label()
		})
		made.Close()
	}
	return labels, warnings, faults
}
