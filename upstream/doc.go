// Package upstream reaches the sites: it resolves and checks where a name
// leads, dials, speaks HTTP on pooled connections, and relays tunnels.
//
//	guard := &upstream.Guard{Local: true, Own: server.Own}
//	dialer := &upstream.Dialer{Guard: guard, Timeout: 10 * time.Second}
//	transport := &upstream.Transport{Dial: dialer.Dial, TLS: &tls.Config{}}
//
//	ctx = upstream.WithMeter(ctx, site)              // bytes are counted here
//	resp, err := transport.RoundTrip(req.WithContext(ctx))
//
//	origin, err := dialer.Dial(ctx, "api.test", 443) // a tunnel instead
//	upstream.Relay(ctx, client, origin, upstream.RelayOptions{Idle: time.Hour})
//
// Behind a next hop, NextHop.Tunnel takes the place of Dialer.Dial.
//
// Every error is an *Error, whose Kind is all that a client may hear of it.
// Of addresses only Guard judges, and always the address that is then dialed:
// a name that was checked and then dialed by name could lead elsewhere by then.
package upstream
