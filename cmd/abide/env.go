package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

func envCommand() *cobra.Command {
	var shell, client string
	var trust bool
	command := &cobra.Command{
		Use:   "env",
		Short: "Print shell lines that make clients use the proxy and trust its CA",
		Long: `Print shell lines after which clients in any language use the proxy and trust
its CA certificate:

  eval "$(abide env)"                              sh, bash, zsh
  abide env --shell fish | source                  fish
  abide env --shell powershell | Invoke-Expression PowerShell

The proxy that the lines name is the one that runs at the configuration's
admin.listen, else the one that the configuration describes, at its address
listen_open: all https is opened there, so that its limits are seen. The files
that the lines name are written anew, beside the CA certificate. Where
access.clients asks for a name and a secret, both are in the lines.

A NO_PROXY of one's own is kept as it is; without one it is set so that this
machine itself is reached without the proxy.`,
		Example: `  eval "$(abide env)"
  eval "$(abide env --client news)"
  eval "$(abide env --trust)"   # beside an abide that is a service`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, dir, p, err := caForLines(cmd, shell)
			if err != nil {
				return err
			}
			if client == "" && len(p.Access.Clients) > 1 {
				names := lists.Map(p.Access.Clients, func(c policy.Client) string { return c.Name })
				return usage(fmt.Errorf("access.clients has several names; say which one with --client: %s", strings.Join(names, ", ")))
			}
			user, err := credential(p, client)
			if err != nil {
				return err
			}
			note := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "abide: "+format+"\n", args...) }
			p, foreign, err := withRunningAddresses(cmd, p, authority, note)
			if err != nil {
				return err
			}
			switch {
			case foreign == nil:
			case trust:
				if authority, dir, err = foreignCA(cmd, foreign, p.Egress.Roots, func(text string) { note("%s", text) }); err != nil {
					return err
				}
			default:
				note("the abide at %s has another CA than %s: name its data directory with --data, or, if it is a service or another user's that you trust, say --trust", foreign.address, authority.File())
			}
			address, user := crawlerProxy(p, user, note)
			if address, err = localAddress(address, false); err != nil {
				return err
			}
			proxy := url.URL{Scheme: schemeOf(p.TLS), User: user, Host: address}
			return printLines(cmd, shell, authority, dir, proxy.String())
		},
	}
	addShellFlag(command, &shell)
	command.Flags().StringVar(&client, "client", "", "`name` of access.clients that the clients are (needed where there are several)")
	command.Flags().BoolVar(&trust, "trust", false, "trust the CA of the running abide although another user, or a service, has it")
	return command
}

// otherAbide is a running abide whose CA is not the one of the data directory.
type otherAbide struct {
	address     string // of its admin listener
	fingerprint string // of its CA certificate
}

// withRunningAddresses is p with the addresses of the abide that serves with this
// configuration, whose ports may differ. Without a running abide it is p. The second result
// is nil unless that abide has another CA.
func withRunningAddresses(cmd *cobra.Command, p *policy.Policy, authority *ca.CA, note func(string, ...any)) (*policy.Policy, *otherAbide, error) {
	address, err := servingAdmin(cmd, p)
	if err == nil {
		err = trustAdmin(p)
	}
	if err != nil || address == "" && p.Admin.Listen == "" {
		return p, nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), liveTimeout)
	defer cancel()
	var about status.Process
	if address != "" {
		_, err = abideAt{registration{Admin: address}, adminAPI{token: p.Admin.Token}}.ask(ctx, http.MethodGet, "status", nil, &about)
	}
	var none notRunning
	switch {
	case address == "", errors.As(err, &none):
		return p, nil, noteNotRunning(cmd, p, note)
	case err != nil:
		note("%v; the lines are for the addresses of the configuration", err)
		return p, nil, nil
	}
	ours := *p
	ours.Listen, ours.Open.Listen = about.Listen, about.ListenOpen
	if about.CA != nil && about.CA.SHA256 != authority.Fingerprint() {
		return &ours, &otherAbide{address, about.CA.SHA256}, nil
	}
	return &ours, nil, nil
}

// noteNotRunning notes that no abide runs with the configuration. Where there is none, and nothing else says where an
// abide is to be, it returns an error: the lines would be about nothing.
func noteNotRunning(cmd *cobra.Command, p *policy.Policy, note func(string, ...any)) error {
	s, err := sourceOf(cmd)
	if err != nil {
		return err
	}
	if s.path == "" && s.found && len(s.flags) == 0 && !slices.ContainsFunc(s.environ, func(v string) bool { return strings.HasPrefix(v, "ABIDE_") }) {
		return fmt.Errorf("no abide runs at %s, and no configuration is here (looked for %s): abide serve starts one; where yours is elsewhere, go to its directory, or name it with --config", p.Admin.Listen, strings.Join(usualFiles(os.Getenv), ", "))
	}
	note("no abide runs yet with this configuration (%s), so the lines are for its address: abide serve starts an abide there", cmp.Or(s.name, "no file"))
	return nil
}

// servingAdmin is the admin listener of an abide that serves: the one at admin.listen if
// anything answers there, else one that is registered in the data directory. An abide run
// serves only its command and does not count. It is "" without such an abide.
func servingAdmin(cmd *cobra.Command, p *policy.Policy) (string, error) {
	if strings.HasSuffix(p.Admin.Listen, ":0") {
		unknown := *p
		unknown.Admin.Listen = ""
		p = &unknown
	}
	list, err := running(cmd, p)
	if err != nil && p.Admin.Listen == "" {
		return "", nil // none can be asked
	}
	if err != nil {
		return "", err
	}
	found := ""
	for _, one := range list {
		if one.Admin == adminAddress(p) {
			return one.Admin, nil
		}
		if one.Command == "serve" {
			found = one.Admin
		}
	}
	return found, nil
}

// crawlerProxy is the address, and the user, with which abide opens all https of a crawler.
// Without such an address, note prints so.
func crawlerProxy(p *policy.Policy, user *url.Userinfo, note func(string, ...any)) (string, *url.Userinfo) {
	opens := func(c policy.Client) bool { return c.OpensAll && user != nil && c.Name == user.Username() }
	switch {
	case p.Open.Listen != "":
		return p.Open.Listen, user
	case p.Intercept.Mode == "all" || slices.ContainsFunc(p.Access.Clients, opens):
	case !p.Open.Off && user == nil:
		// Clients that send no password before they are asked for it, such as Java, are
		// not recognised.
		return p.Listen, url.UserPassword("open", "open")
	default:
		note("https passes unread at %s except to hosts whose rules need its requests; set listen_open to an address, or intercept: all", p.Listen)
	}
	return p.Listen, user
}

// foreignCA is the CA of an abide whose data directory this user may not read: that of a
// service, or of another user. The directory is this user's own, where the bundle is
// written.
func foreignCA(cmd *cobra.Command, running *otherAbide, roots string, notice func(string)) (authority *ca.CA, dir string, err error) {
	code, text, err := askOpen(cmd.Context(), running.address, "/ca.pem")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("it answers %d %s", code, http.StatusText(code))
	}
	if err != nil {
		return nil, "", fmt.Errorf("asking %s for its CA certificate: %w", running.address, err)
	}
	if authority, err = ca.Foreign([]byte(text), ca.Options{Roots: roots, Notice: notice}); err != nil {
		return nil, "", fmt.Errorf("%s: %w", running.address, err)
	}
	if authority.Fingerprint() != running.fingerprint {
		return nil, "", fmt.Errorf("%s has a new CA certificate by now: ask once more", running.address)
	}
	name := strings.ToLower(strings.ReplaceAll(running.fingerprint, ":", ""))[:16]
	return authority, filepath.Join(policy.Defaults().Data, "trusted", name), nil
}
