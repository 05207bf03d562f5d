package proxy

import (
	"sync/atomic"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// grant is a CONNECT that was accepted: what applies to all requests inside it.
type grant struct {
	target  policy.Target
	client  *dispatch.Client // nil: access.clients is empty
	via     string           // Via header of the CONNECT
	options dispatch.RequestOptions
	policy  *policy.Policy // by which the client was admitted
	used    atomic.Bool    // a request has come inside
}
