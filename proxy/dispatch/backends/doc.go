// Package backends has the equal hosts that a site may stand for: to which of them a
// request is sent, and which of them get no requests for a while after failures.
//
//	g := backends.NewGroup(rule, loads)
//	b := &g.Hosts[g.Pick(ready, client, now)]
//	b.Load.Begin()
//	...
//	b.Load.End()
//	b.Load.Add(took, backends.HealthOf(status, err, refused), now)
//
// Nothing here waits, sends or logs.
package backends
