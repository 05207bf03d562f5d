package lease

import "github.com/abide-proxy/abide/limit"

// Within is the meter inside: how the limit stands, whatever the journal knows of it.
func (m *kept) Within() limit.Meter { return m.Meter }
