package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// starter is the configuration that "abide init" writes.
//
//go:embed init.yaml
var starter []byte

func initCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a short configuration to start from",
		Long: `Init writes a commented configuration to start from: to abide.yaml in this
directory, or to FILE. It does not overwrite a file unless --force is given.
With - it prints the configuration instead.`,
		Example: `  abide init
  abide init - | less`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := defaultFile
			if len(args) == 1 {
				path = args[0]
			}
			return writeStarter(cmd, path, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite a file that exists")
	return cmd
}

func writeStarter(cmd *cobra.Command, path string, force bool) error {
	out := cmd.OutOrStdout()
	if path == "-" {
		_, err := out.Write(starter)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is left as it is; --force overwrites it, and abide init - prints the configuration", path)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	_, err = file.Write(starter)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	check := "abide check"
	if path != defaultFile {
		check += " " + path
	}
	_, err = fmt.Fprintf(out, "wrote %s; edit it, then %q says what it means\n", path, check)
	return err
}
