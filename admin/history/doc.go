// Package history keeps what was counted in each minute: the traffic of sites, what became of
// the requests of each client, and how long each limit held requests. The last hour is in
// memory; a file keeps all of it.
package history
