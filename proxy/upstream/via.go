package upstream

import (
	"context"
	"strings"
)

type viaKey struct{}

// WithVia stores the proxies that a request has passed, as in its Via headers, joined by
// commas. A next hop gets them, so that a loop of proxies is detected.
func WithVia(ctx context.Context, chain string) context.Context {
	if chain == "" {
		return ctx
	}
	return context.WithValue(ctx, viaKey{}, chain)
}

// ViaFrom is the chain that WithVia stored.
func ViaFrom(ctx context.Context) string {
	chain, _ := ctx.Value(viaKey{}).(string)
	return chain
}

// joinVia adds the name of this process to a chain, as an HTTP/1.1 proxy.
func joinVia(chain, name string) string {
	switch {
	case name == "":
		return chain
	case chain == "":
		return "1.1 " + name
	default:
		return strings.TrimRight(chain, ", ") + ", 1.1 " + name
	}
}
