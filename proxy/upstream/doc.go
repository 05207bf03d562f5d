// Package upstream connects to sites: it resolves names and checks the addresses,
// dials, sends HTTP requests on pooled connections, and relays tunnels.
//
//	guard := &upstream.Guard{Local: true, Own: server.Own}
//	dialer := &upstream.Dialer{Guard: guard, Timeout: 10 * time.Second}
//	transport := &upstream.Transport{Dial: dialer.Dial, TLS: &tls.Config{}}
//
//	ctx = context.WithValue(ctx, upstream.MeterKey{}, site) // bytes are counted here
//	resp, err := transport.RoundTrip(req.WithContext(ctx))
//
//	origin, err := dialer.Dial(ctx, "api.test", 443) // a tunnel instead
//	upstream.Relay(ctx, client, origin, upstream.RelayOptions{Idle: time.Hour})
//
// Behind a next hop, NextHop.Tunnel takes the place of Dialer.Dial.
//
// Every error is an *Error, and clients may learn only its Kind.
// Only Guard decides on addresses, and it checks the very address that is dialed:
// a name that was checked and then dialed by name could resolve differently.
package upstream
