package dispatch

import (
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/tokens"
)

// scopeOfToken is what cools when a token does.
func scopeOfToken(t *tokens.Token) queue.Scope {
	return queue.Scope{Limit: plans.TokenLimit, Key: t.Key()}
}
