package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// credential is who the command is to the proxy, where clients must say so.
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

// childEnviron is environ with what makes clients use the proxy. What somebody
// reaches without a proxy stays so, in both spellings.
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
