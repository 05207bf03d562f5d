package upstream

import (
	"context"
	"strings"
)

type viaKey struct{}

// WithVia keeps the proxies that a request has passed, as its Via headers name
// them, joined by commas. A next hop is told of them, so that a ring of
// proxies shows.
func WithVia(ctx context.Context, chain string) context.Context {
	if chain == "" {
		return ctx
	}
	return context.WithValue(ctx, viaKey{}, chain)
}

// ViaFrom is what WithVia kept.
func ViaFrom(ctx context.Context) string {
	chain, _ := ctx.Value(viaKey{}).(string)
	return chain
}

// joinVia adds the name of this process to a chain, as one that speaks HTTP/1.1.
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
