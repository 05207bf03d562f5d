package policy

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Store is where budgets are kept that outlive a process or span a fleet.
type Store struct {
	Kind string // local | redis | rediss | redis+sentinel | …
	URL  Secret // empty when Kind is local
}

var storeKinds = []string{
	"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
}

// readStore quotes nothing of what it reads, as it may hold a password.
func readStore(p *Policy, in *input) {
	if in.value() == "local" {
		p.Store = Store{Kind: "local"}
		return
	}
	u, err := url.Parse(in.value())
	switch {
	case err != nil, u.Scheme == "", u.Opaque != "":
		in.fail(-1, errors.New("is neither local nor a URL such as redis://user:secret@redis.example:6379"))
	case !slices.Contains(storeKinds, u.Scheme):
		in.fail(-1, errors.New("has a scheme that is none of "+strings.Join(storeKinds, ", ")))
	case u.Host == "" || strings.HasPrefix(u.Host, ":"):
		in.fail(-1, errors.New("needs a host, such as redis://redis.example:6379"))
	default:
		p.Store = Store{Kind: u.Scheme, URL: NewSecret(in.value())}
	}
}
