// Package metrics defines every metric of abide, once. It imports nothing
// else of abide but status.
//
//	m := metrics.New(1000)
//	site := m.Site("api.test")       // also counts bytes for package upstream
//	site.Request("GET", 200, took)
//	http.Handle("/metrics", m.Handler())
//
// Counting a request formats no label, takes no lock that all
// requests share and, except for the first request of a site, allocates nothing.
package metrics
