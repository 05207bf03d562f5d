package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration and print what it means",
		Long: `Check reads a configuration as "abide serve" would, flags and environment
included, and prints what it means. It ends with 1 when something is wrong, each
fault on a line of its own with its file and line. It never prints a secret.`,
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
	for _, one := range p.Warnings() {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", one)
	}
	p.Describe(cmd.OutOrStdout())
	return nil
}
