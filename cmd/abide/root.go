package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

// execute runs a command line. It returns the exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitFailed
	var faults policy.Faults
	if errors.As(err, &faults) {
		code = exitUsage
	}
	var known *exit
	if errors.As(err, &known) {
		code = known.code
		if known.err == nil {
			return code
		}
	}
	// Each fault is a line without a prefix, so that an editor finds file:line.
	if _, bare := err.(policy.Faults); bare {
		fmt.Fprintln(errs, err)
	} else {
		fmt.Fprintln(errs, "abide:", err)
	}
	return code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "abide",
		Short: "An HTTP forward proxy for crawlers",
		Long: `abide is an HTTP forward proxy for crawlers in any language. Without a command
it serves, as "abide serve" does.

The configuration is the file of --config, else of $ABIDE_CONFIG, else
./abide.yaml when there is one, else the defaults. A flag beats the environment,
which beats the file. "abide help config" lists every setting.`,
		Version: versionText(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if err := detachedValue(cmd.Flags(), args[0]); err != nil {
				return err
			}
			return noCommand(cmd, args[0])
		},
		RunE:                       serve,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.SetUsageTemplate(usageText)
	root.SetVersionTemplate(versionLine())
	addFlags(root.PersistentFlags())
	addServeFlags(root.Flags())
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run:", []*cobra.Command{serveCommand(), runCommand(), envCommand(), demoCommand()}},
		{"jobs", "Fetch without a crawler:", []*cobra.Command{backfillCommand(), collectCommand(), jobsCommand(), exportCommand()}},
		{"configure", "Configure:", []*cobra.Command{initCommand(), checkCommand(), explainCommand(), schemaCommand(), planCommand(), caCommand()}},
		{"ask", "Ask a running abide:", []*cobra.Command{statusCommand(), topCommand(), sitesCommand(), reportCommand(), adviseCommand(), pauseCommand(), resumeCommand(), reloadCommand(), healthcheckCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, one := range group.commands {
			one.GroupID = group.id
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(learnCommand(), shardCommand(), versionCommand(), configTopic(), flagsTopic(root.PersistentFlags()))
	root.InitDefaultHelpCmd()
	helpOfCommands(root)
	return root
}

// helpOfCommands makes "abide help NAME" an error where NAME is no command.
func helpOfCommands(root *cobra.Command) {
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Args = func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if found, _, err := root.Find(args); err != nil || found == root {
				return noCommand(root, args[0])
			}
			return nil
		}
	}
}

// noCommand is the error for a name that is no command.
func noCommand(root *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q", name)
	if like := root.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usage(errors.New(text + ` ("abide help" lists them)`))
}
