package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/policy"
)

// usageText is the template for the usage of commands: a command's own flags, and a line
// about the flags of all commands.
const usageText = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}
{{- if .HasAvailableSubCommands}}{{$commands := .Commands}}
{{- range $group := .Groups}}

{{.Title}}
{{- range $commands}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if not .AllChildCommandsHaveGroup}}{{if .Groups}}

Other commands:{{else}}

Commands:{{end}}
{{- range $commands}}{{if and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}
{{- with (.LocalNonPersistentFlags.FlagUsagesWrapped 80)}}

Flags:
{{trimTrailingWhitespaces .}}{{end}}

Global flags: --config, --admin, --data and others; see "abide help flags".
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" says more about a command.{{end}}
`

// configTopic is "abide help config".
func configTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`Every setting that is one value, with the environment variable that sets it too.
Lists (access.clients, sites) stand in the file alone; config.example.yaml shows
them.

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
		for _, line := range wrapped(text, 72) {
			fmt.Fprintf(&b, "        %s\n", line)
		}
	})
	return topic("flags", "The global flags", b.String())
}

// topic is a page of help that is not about a command.
func topic(name, short, text string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: short, Long: text}
	page.SetUsageTemplate("") // the page is all there is
	return page
}

// wrapped breaks a text into lines of at most width characters, unless a word is longer.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
