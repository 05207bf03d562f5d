package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
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
	if _, ok := errors.AsType[policy.Faults](err); ok {
		code = exitUsage
	}
	if known, ok := errors.AsType[*exit](err); ok {
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

The configuration is the file of --config (- is standard input), else of
$ABIDE_CONFIG, else the document in $ABIDE_CONFIG_YAML, else the first that
exists of ./abide.yaml, ~/.config/abide/abide.yaml and /etc/abide/abide.yaml,
else the defaults. A flag beats the environment, which beats the file. "abide
help config" lists every setting.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.Flags().Changed("version") {
				return nil
			}
			if err := detachedValue(cmd.Flags(), args); err != nil {
				return err
			}
			return noCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if asked, _ := cmd.Flags().GetBool("version"); asked {
				return printVersion(cmd, args)
			}
			return serve(cmd, args)
		},
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(unknownFlag(cmd.Flags(), err)) })
	root.SetUsageFunc(printUsage)
	root.Flags().BoolP("version", "v", false, "version for abide")
	addFlags(root.PersistentFlags())
	addServeFlags(root.Flags())
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run:", []*cobra.Command{serveCommand(), runCommand(), envCommand(), demoCommand()}},
		{"jobs", "Fetch without a crawler:", []*cobra.Command{backfillCommand(), collectCommand(), jobsCommand(), exportCommand()}},
		{"configure", "Configure:", []*cobra.Command{initCommand(), checkCommand(), explainCommand(), schemaCommand(), planCommand(), caCommand()}},
		{"ask", "Ask a running abide:", []*cobra.Command{statusCommand(), topCommand(), sitesCommand(), reportCommand(), adviseCommand(), pauseCommand(), resumeCommand(), tryCommand(), forgetCommand(), reloadCommand(), healthcheckCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, one := range group.commands {
			one.GroupID = group.id
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(learnCommand(), shardCommand(), configTopic(), flagsTopic(root.PersistentFlags()))
	root.AddCommand(&cobra.Command{Use: "version", Short: "Print the version", RunE: printVersion})
	root.AddCommand(&cobra.Command{Use: "end-orphan", Hidden: true, Run: func(cmd *cobra.Command, _ []string) { endOrphan(cmd.InOrStdin()) }})
	takeNoArguments(root)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		if found, _, err := root.Find(args); len(args) > 0 && (err != nil || found == root) {
			return noCommand(root, args[0])
		}
		return nil
	}
	return root
}

// takeNoArguments makes arguments an error of each command that does not say which it takes.
func takeNoArguments(c *cobra.Command) {
	if c.Args == nil {
		c.Args = arguments(cobra.NoArgs)
	}
	for _, inner := range c.Commands() {
		takeNoArguments(inner)
	}
}

// printUsage writes the usage of a command: a command's own flags, and a line about the flags of all commands. It is
// no template of cobra's, with which the binary is a quarter larger (TestTheBinaryOfTheImageIsStatic).
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	flags := strings.TrimRight(c.LocalNonPersistentFlags().FlagUsagesWrapped(80), "\n")
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " COMMAND")
		others := &cobra.Group{Title: "Commands:"}
		if len(c.Groups()) > 0 {
			others.Title = "Other commands:"
		}
		for _, group := range append(c.Groups(), others) {
			title := "\n\n" + group.Title
			for _, one := range c.Commands() {
				if one.GroupID == group.ID && (one.IsAvailableCommand() || one.Name() == "help") {
					fmt.Fprintf(&b, "%s\n  %-*s %s", title, one.NamePadding(), one.Name(), one.Short)
					title = ""
				}
			}
		}
	}
	if flags != "" {
		b.WriteString("\n\nFlags:\n" + flags)
	}
	b.WriteString("\n\nGlobal flags: --config, --admin, --data and others; see \"abide help flags\".")
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\n\"%s COMMAND --help\" says more about a command.", c.CommandPath())
	}
	b.WriteString("\n")
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// configTopic is "abide help config".
func configTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`Every setting that is one value, with the environment variable that sets it too.
Lists (access.clients, sites) stand in the file alone; config.example.yaml shows
them. In place of a variable with a secret, such as ABIDE_ADMIN_TOKEN, the same
with _FILE behind it may name a file that has the secret.

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, key := range policy.Keys() {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", key.Name, variable(key), key.Kind, key.Default)
	}
	w.Flush()
	return topic("config", "Every setting, with its environment variable", b.String())
}

// flagsTopic is "abide help flags".
func flagsTopic(global *pflag.FlagSet) *cobra.Command {
	var b strings.Builder
	b.WriteString(`The global flags, which every command takes. A flag beats the environment
variable in brackets, which beats the configuration file. "abide help config"
lists the settings that have no flag.
`)
	global.VisitAll(func(f *pflag.Flag) {
		value, text := pflag.UnquoteUsage(f)
		switch {
		case f.Value.Type() == "switch":
			value = "[=on|off]"
		case f.NoOptDefVal != "":
			value = "[=" + f.Value.Type() + "]"
		default:
			value = " " + value
		}
		fmt.Fprintf(&b, "\n  --%s%s\n", f.Name, value)
		for _, line := range status.Wrapped(text, 72) {
			fmt.Fprintf(&b, "        %s\n", line)
		}
	})
	return topic("flags", "The global flags", b.String())
}

// topic is a page of help that is not about a command.
func topic(name, short, text string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: short, Long: text}
	page.SetUsageFunc(func(*cobra.Command) error { return nil }) // the page is all there is
	return page
}
