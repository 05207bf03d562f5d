package lease

import "github.com/abide-proxy/abide/limit"

// Within is the inner meter: the state of the limit, whatever is journaled.
func (m *durable) Within() limit.Meter { return m.Meter }
