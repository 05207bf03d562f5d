// Package history keeps what was counted. The last 15 minutes are in memory, in seconds and in steps of 10 seconds,
// for the page: requests and bytes of each site, how many requests waited, and the states of tokens. The last hour is
// in memory in minutes, and a file keeps all of it: the traffic of sites, what became of the requests of each client,
// and how long each limit held requests.
//
// The usual call:
//
//	r := history.New(history.Options{Sites: m.Sites, Tokens: proxy.Tokens, Waiting: held, File: file, Log: log})
//	go r.Run(ctx)
//	last := r.Snapshot(time.Now())
package history
