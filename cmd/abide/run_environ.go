package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

// credential is the name and secret of a client, nil where clients have none.
func credential(p *policy.Policy, client string) (*url.Userinfo, error) {
	for _, one := range p.Access.Clients {
		if client == "" || client == one.Name {
			return url.UserPassword(one.Name, one.Secret.Reveal()), nil
		}
	}
	if client != "" {
		return nil, usage(fmt.Errorf("--client: access.clients has no %q", client))
	}
	return nil, nil
}

// trustAsCommand makes the proxy trust what the command would trust without abide: besides
// egress.roots, the certificates that variables such as REQUESTS_CA_BUNDLE name. It writes
// them to one file in dir and names that file in p.
func trustAsCommand(p *policy.Policy, dir string) error {
	roots := ca.UserRoots(ca.Dir(p.Data))
	if len(roots) == 0 {
		return nil
	}
	if p.Egress.Roots != "" {
		configured, err := policy.ReadFile(p.Egress.Roots, maxFile)
		if err != nil {
			return fmt.Errorf("reading egress.roots: %w", err)
		}
		roots = slices.Concat(configured, []byte("\n"), roots)
	}
	p.Egress.Roots = filepath.Join(dir, "trusted.pem")
	if err := os.WriteFile(p.Egress.Roots, roots, 0o600); err != nil {
		return fmt.Errorf("writing the certificates that the command trusts: %w", err)
	}
	return nil
}

// childEnviron is environ with the variables that make clients use the proxy. Hosts that are
// excluded from proxies stay so, in both spellings of the variable.
func childEnviron(environ, proxied []string) []string {
	direct, kept := "", map[string]bool{}
	for _, one := range environ {
		if name, value, _ := strings.Cut(one, "="); name == "NO_PROXY" || name == "no_proxy" {
			direct, kept[name] = value, true
		}
	}
	ours := map[string]bool{"ALL_PROXY": true, "all_proxy": true}
	var added []string
	for _, one := range proxied {
		name, _, _ := strings.Cut(one, "=")
		if kept[name] {
			continue
		}
		if len(kept) > 0 && (name == "NO_PROXY" || name == "no_proxy") {
			one = name + "=" + direct
		}
		ours[name] = true
		added = append(added, one)
	}
	var env []string
	for _, one := range environ {
		if name, _, _ := strings.Cut(one, "="); !ours[name] {
			env = append(env, one)
		}
	}
	return append(env, added...)
}
