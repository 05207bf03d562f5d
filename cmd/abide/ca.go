package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

func caCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "ca",
		Short: "Show, export or install the certificate that intercepting needs",
		Long: `Where abide intercepts https, clients must trust its CA certificate. abide makes
one on its first run, in the data directory. It is good for any host while
clients can have all https opened (listen_open, intercept: all, abide run), else
only for the hosts that the configuration intercepts. A fleet can have one CA of
its own instead: ca.cert and ca.key in the configuration.

abide run sets everything for the command it runs. For clients that are started
otherwise: eval "$(abide ca env)" in their shell, or abide ca install for the
whole machine.

When more hosts are intercepted than the certificate covers, abide makes a new
one, which clients must trust from then on, and says so.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(caShowCommand(), caExportCommand(), caEnvCommand(), caInstallCommand())
	return command
}

func caShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print where the CA certificate is and what it is good for",
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, _, _, err := openKeptCA(cmd)
			if err != nil {
				return err
			}
			about := authority.About()
			good := strings.Join(about.Names, ", ")
			switch {
			case about.Any:
				good = "any host"
			case about.Given:
			case good == "":
				good = "no host, because the configuration intercepts none"
			default:
				good += ", and what is below"
			}
			from, until := about.NotBefore.UTC().Format(time.DateOnly), about.NotAfter.UTC().Format(time.DateOnly)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), `certificate  %s
subject      %s
sha-256      %s
valid        %s to %s
good for     %s
`, about.File, about.Subject, about.Fingerprint, from, until, good)
			return err
		},
	}
}

// exports are the formats of `abide ca export`.
var exports = map[string]func(*ca.CA) ([]byte, error){
	"pem": func(c *ca.CA) ([]byte, error) { return c.PEM(), nil },
	"der": func(c *ca.CA) ([]byte, error) {
		block, _ := pem.Decode(c.PEM())
		return block.Bytes, nil
	},
	"bundle": (*ca.CA).Bundle,
	"jks":    (*ca.CA).JavaStore,
}

func caExportCommand() *cobra.Command {
	var format, out string
	command := &cobra.Command{
		Use:   "export",
		Short: "Print the CA certificate",
		Long: `Print the CA certificate (never its key), in one of these formats:

  pem     the certificate alone, as most settings that add a root want it
  der     the same in binary form
  bundle  PEM with this system's roots and your own too, for settings that
          replace all roots
  jks     the bundle as a Java key store, with the password changeit`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			encode, ok := exports[format]
			if !ok {
				return usage(fmt.Errorf("--format %q: it is pem, der, bundle or jks", format))
			}
			authority, _, _, err := openKeptCA(cmd)
			if err != nil {
				return err
			}
			data, err := encode(authority)
			if err != nil {
				return err
			}
			if out == "" || out == "-" {
				_, err = cmd.OutOrStdout().Write(data)
				return err
			}
			if err := os.WriteFile(out, data, 0o644); err != nil {
				return fmt.Errorf("writing the CA certificate: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&format, "format", "pem", "pem, der, bundle or jks")
	command.Flags().StringVarP(&out, "out", "o", "", "write to this file instead of standard output")
	_ = command.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"pem", "der", "bundle", "jks"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// shells are the statements that set a variable, by shell.
var shells = map[string]func(key, value string) string{
	"sh": func(key, value string) string { return "export " + key + "=" + ca.ShellQuoted(value) },
	"fish": func(key, value string) string {
		return "set -gx " + key + " '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
	},
	"powershell": func(key, value string) string {
		return "$env:" + key + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	},
}

func caEnvCommand() *cobra.Command {
	var shell string
	command := &cobra.Command{
		Use:   "env",
		Short: "Print shell lines that make clients trust the CA",
		Long: `Print shell lines that make clients in any language trust the CA certificate
besides this system's roots and those that you have named yourself:

  eval "$(abide ca env)"                              sh, bash, zsh
  abide ca env --shell fish | source                  fish
  abide ca env --shell powershell | Invoke-Expression PowerShell

The files that the lines name are written anew, beside the CA certificate, and
again when the certificate is renewed. They have the certificates of the files
that variables such as REQUESTS_CA_BUNDLE, NODE_EXTRA_CA_CERTS and SSL_CERT_FILE
name now, and of egress.roots. All shells share the files: name what each of
them needs in egress.roots.

wget reads a copy of your .wgetrc: run this again after you have changed that.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, dir, _, err := caForLines(cmd, shell)
			if err != nil {
				return err
			}
			return printLines(cmd, shell, authority, dir, "")
		},
	}
	addShellFlag(command, &shell)
	return command
}

// addShellFlag adds the flag that names the shell for which lines are printed.
func addShellFlag(command *cobra.Command, shell *string) {
	command.Flags().StringVar(shell, "shell", "sh", "sh, fish or powershell")
	_ = command.RegisterFlagCompletionFunc("shell", cobra.FixedCompletions([]string{"sh", "fish", "powershell"}, cobra.ShellCompDirectiveNoFileComp))
}

// caForLines opens the CA, and returns the directory for the files that shell lines name, and the configuration.
func caForLines(cmd *cobra.Command, shell string) (authority *ca.CA, dir string, p *policy.Policy, err error) {
	if shells[shell] == nil {
		return nil, "", nil, usage(fmt.Errorf("--shell %q: it is sh, fish or powershell", shell))
	}
	authority, dir, p, err = openKeptCA(cmd)
	if err == nil && dir == "" {
		err = errors.New("nothing is kept (data: none), so there is no directory for the files that the lines name: name one with --data, ABIDE_DATA or data, or use abide ca export or abide run")
	}
	return authority, dir, p, err
}

// printLines prints shell lines that make clients use a proxy, "" for none, and trust a CA. It writes
// the files that they name into a directory.
func printLines(cmd *cobra.Command, shell string, authority *ca.CA, dir, proxy string) error {
	extraFile, bundleFile, err := authority.WriteBundle(dir)
	if err != nil {
		return err
	}
	for _, one := range ca.Env(proxy, extraFile, bundleFile) {
		key, value, _ := strings.Cut(one, "=")
		fmt.Fprintln(cmd.OutOrStdout(), shells[shell](key, value))
	}
	return nil
}

func caInstallCommand() *cobra.Command {
	var uninstall, dry, browsers bool
	command := &cobra.Command{
		Use:   "install",
		Short: "Have the whole machine and its browsers trust the CA",
		Long: `Add the CA certificate to this machine's trust store, which takes root or an
administrator, and on Linux to the stores of your Chromium and Firefox, which
takes certutil. --browsers does the latter alone, and needs no root.

Other programs that have a trust store of their own, such as Java, Node.js and
Python's requests, do not look there: abide ca env is for them. Installing it
again replaces the one that is there.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, machine, err := installSteps(cmd, uninstall)
			if root == "" && !uninstall || err != nil && !browsers {
				return err
			}
			steps, hint, err := browserSteps(root, browsers)
			if err != nil {
				return err
			}
			if hint != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "abide:", hint)
			}
			denied := os.Geteuid() > 0 && !browsers && !dry
			if !browsers && !denied {
				steps = append(steps, machine...)
			}
			for _, one := range steps {
				if dry {
					fmt.Fprintln(cmd.OutOrStdout(), one)
				} else if err := runStep(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), one); err != nil {
					return err
				}
			}
			if denied {
				commands := lists.Map(machine, func(s ca.Step) string { return "  sudo " + s.String() })
				return fmt.Errorf("changing this machine's trust store takes root; run:\n%s", strings.Join(commands, "\n"))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&uninstall, "uninstall", false, "remove it again")
	command.Flags().BoolVar(&dry, "dry-run", false, "print what would be done")
	command.Flags().BoolVar(&browsers, "browsers", false, "have your Chromium and Firefox alone trust the CA (Linux)")
	return command
}

// installSteps returns the steps that change this machine's trust store, and the file of the root, which is ""
// where it is removed.
func installSteps(cmd *cobra.Command, uninstall bool) (root string, steps []ca.Step, err error) {
	has := func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && info.IsDir()
	}
	dir, p, err := caDirectory(cmd)
	if err != nil {
		return "", nil, err
	}
	_, missing := os.Stat(ca.RootFile(dir))
	exists := p.CA.Given() || missing == nil
	// Under sudo the home directory may be root's. A CA that is made there now
	// would be trusted, and never used.
	if user := os.Getenv("SUDO_USER"); user != "" && !exists && !uninstall {
		return "", nil, fmt.Errorf("there is no CA in %s: name the data directory of the user %s with --data, or run `abide ca install` as that user to see what to do", dir, user)
	}
	var about ca.About
	if exists || !uninstall {
		authority, err := openCAIn(cmd, dir, p)
		if err != nil {
			return "", nil, err
		}
		about = authority.About()
	}
	if uninstall {
		steps, err = ca.Uninstallation(runtime.GOOS, has, about.File, about.CommonName)
		return "", steps, err
	}
	if !about.Any && len(about.Names) == 0 {
		return "", nil, errors.New("the configuration intercepts no host, so the CA is good for none: write the sites first, and install then")
	}
	steps, err = ca.Installation(runtime.GOOS, has, about.File)
	return about.File, steps, err
}

// runStep takes a step, and writes what is so after it.
func runStep(ctx context.Context, out, errs io.Writer, s ca.Step) (err error) {
	switch {
	case s.To != "":
		var data []byte
		if data, err = os.ReadFile(s.Copy); err == nil {
			err = os.WriteFile(s.To, data, 0o644)
		}
		if err == nil {
			err = os.Chmod(s.To, 0o644) // independent of the umask
		}
	case s.Remove != "":
		err = existing(os.Remove(s.Remove))
	default:
		child := exec.CommandContext(ctx, s.Run[0], s.Run[1:]...)
		if child.Stdout, child.Stderr = out, errs; s.MayFail {
			child.Stderr = io.Discard
		}
		if s.Input != "" {
			input, err := os.Open(s.Input)
			if err != nil {
				return err
			}
			defer input.Close()
			child.Stdin = input
		}
		err = child.Run()
	}
	if err != nil && !s.MayFail {
		return fmt.Errorf("installing the CA certificate: %s: %w", s, err)
	}
	if s.Says != "" && err == nil {
		fmt.Fprintln(out, s.Says)
	}
	return nil
}

// caDirectory is the directory of the CA, and the configuration. The directory is "" where
// the operator gave the CA and nothing is kept.
func caDirectory(cmd *cobra.Command) (string, *policy.Policy, error) {
	p, err := loadPolicy(cmd)
	if err != nil {
		return "", nil, err
	}
	if p.CA.Given() {
		return ca.GivenDir(p.Data), p, nil
	}
	dir := ca.Dir(p.Data)
	if dir == "" {
		return "", nil, errors.New("nothing is kept (data: none), so every process makes a CA of its own: name a data directory with --data, ABIDE_DATA or data, or use abide run")
	}
	return dir, p, nil
}

// openKeptCA opens the CA that abide serve uses with this configuration, and returns what caDirectory does.
func openKeptCA(cmd *cobra.Command) (authority *ca.CA, dir string, p *policy.Policy, err error) {
	if dir, p, err = caDirectory(cmd); err == nil {
		authority, err = openCAIn(cmd, dir, p)
	}
	return authority, dir, p, err
}

// openCAIn opens the CA of a configuration, of which caDirectory has returned the directory.
func openCAIn(cmd *cobra.Command, dir string, p *policy.Policy) (*ca.CA, error) {
	return ca.Open(dir, ca.Options{
		Names: p.InterceptNames(), Cert: p.CA.Cert, Key: p.CA.Key, Roots: p.Egress.Roots,
		Notice: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "abide:", text) },
	})
}
