package proxy

import (
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// portSilence is how long the log does not say again that a port of a host is refused.
const portSilence = time.Minute

// refusedPorts counts CONNECTs to ports that egress.ports does not name, and limits the
// lines of the log about them. It is safe for concurrent use.
type refusedPorts struct {
	count atomic.Uint64
	lines lineLimit
}

// portRefused is told of a CONNECT to a port that egress.ports does not name.
func (a *activity) portRefused(to policy.Target) {
	a.ports.count.Add(1)
	if a.ports.lines.due(to.HostPort(), time.Now()) {
		a.log.Warnf("CONNECT to %s is refused, since egress.ports does not name port %d; add it there to allow it", to.HostPort(), to.Port)
	}
}
