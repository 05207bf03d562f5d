package proxy

import (
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// portSilence is for how long the log does not repeat that a port of a host is refused.
const portSilence = time.Minute

// connectCounts counts the CONNECTs of clients, and those to ports that egress.ports does
// not name, and logs the latter. It is safe for concurrent use.
type connectCounts struct {
	log          *logrus.Logger
	all, refused atomic.Uint64
	lines        sitelog.LineLimit
}

// portRefused notes a CONNECT to a port that egress.ports does not name.
func (c *connectCounts) portRefused(to policy.Target) {
	c.refused.Add(1)
	if c.lines.Due(to.HostPort(), time.Now()) {
		c.log.Warnf("CONNECT to %s is refused, since egress.ports does not name port %d; add it there to allow it", to.HostPort(), to.Port)
	}
}
