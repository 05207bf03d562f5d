package proxy

import (
	"sync/atomic"

	"github.com/abide-proxy/abide/proxy/bandwidth"
)

// tunnelMeter counts the bytes of one tunnel, for its client, and has the budget of its site
// count them too.
type tunnelMeter struct {
	*bandwidth.SiteBudget
	received, sent atomic.Int64
}

// Read counts bytes received from the site.
func (m *tunnelMeter) Read(n int) {
	m.received.Add(int64(n))
	m.SiteBudget.Read(n)
}

// Wrote counts bytes sent to the site.
func (m *tunnelMeter) Wrote(n int) {
	m.sent.Add(int64(n))
	m.SiteBudget.Wrote(n)
}
