package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/proxy/dispatch"
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
With - it prints the configuration instead.

"abide init job URL" writes the file of a job.`,
		Example: `  abide init
  abide init - | less
  abide init job 'https://api.example.com/orders?page=1'`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, check := append(args, defaultFile)[0], "abide check"
			if path != defaultFile {
				check += " " + path
			}
			return writeStarter(cmd.OutOrStdout(), path, starter, force, check)
		},
	}
	cmd.PersistentFlags().BoolVar(&force, "force", false, "overwrite a file that exists")
	cmd.AddCommand(initJobCommand(&force))
	return cmd
}

// writeStarter writes a file to start from, about which the command check says more.
func writeStarter(out io.Writer, path string, text []byte, force bool, check string) error {
	if path == "-" {
		_, err := out.Write(text)
		return err
	}
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("%s exists and is left as it is; --force overwrites it, and - in its place prints what would be written", path)
	}
	err := writeWhole(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the file: %w", err)
	}
	_, err = fmt.Fprintf(out, "wrote %s; edit it, then %q says what it means\n", path, check)
	return err
}

func initJobCommand(force *bool) *cobra.Command {
	var headers []string
	cmd := &cobra.Command{
		Use:   "job [flags] URL [FILE]",
		Short: "Write the file of a job from what a URL answers",
		Long: `Init job asks for a URL once, and writes the file of a job for it: where the
records are, what identifies one, how pages follow, and columns. The job and the
file have the name of the end of the path of the URL, or of FILE if it is given.
It overwrites a file only with --force. With - it prints the job instead.

Limits and tokens are those of the configuration. A header with a credential is
written with the name of a variable, in single quotes for the shell.`,
		Example: `  abide init job 'https://api.example.com/orders?page=1'
  abide init job -H 'Authorization: Bearer ${TOKEN}' https://api.example.com/a`,
		Args: arguments(cobra.RangeArgs(1, 2)),
	}
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "a `NAME: VALUE` of the request; VALUE may have ${NAME}")
	addProxyFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address, _, _ := strings.Cut(args[0], "?")
		if len(args) == 2 && args[1] != "-" {
			address = strings.TrimSuffix(args[1], path.Ext(args[1]))
		}
		name := notInName.ReplaceAllString(path.Base(address), "")
		name = cmp.Or(name[:min(len(name), 40)], "job")
		file := append(args[1:], name+".yaml")[0]
		var written []string
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ":")
			sent := &http.Request{Header: http.Header{http.CanonicalHeaderKey(name): {value}}, URL: &url.URL{}}
			if !strings.Contains(value, "${") && len(dispatch.CredentialsOf(sent, len(value))) > 0 {
				return usage(fmt.Errorf("--header %s has a credential, which would be written to the file: write ${NAME} in its place, in single quotes, and set that variable", name))
			}
			written = append(written, fmt.Sprintf("%q: %q", name, strings.TrimSpace(value)))
		}
		text := fmt.Sprintf("name: %s\nrequest:\n    url: %q\n", name, args[0])
		if len(headers) > 0 {
			text += "    headers: {" + strings.Join(written, ",") + "}\n"
		}
		job, err := jobfile.Load(policy.Source{Path: file, Data: []byte(text), Environ: os.Environ()})
		if err != nil {
			return err
		}
		draft, err := tryJob(cmd, job, cmd.ErrOrStderr(), true)
		if draft == nil {
			return err
		}
		return errors.Join(writeStarter(cmd.OutOrStdout(), file, []byte(text+draft.Text()), *force, "abide backfill --try "+file), err)
	}
	return cmd
}

// notInName finds what the name of a job cannot have.
var notInName = regexp.MustCompile(`^[^A-Za-z]+|[^A-Za-z0-9_-]+`)
