// Package metrics has every metric of abide, named once. It imports nothing
// else of abide.
//
//	m := metrics.New(1000)
//	site := m.Site("api.test")       // an upstream.Meter too
//	site.Request("GET", 200, took)
//	http.Handle("/metrics", m.Handler())
//
// What happens for every request formats no label, takes no lock that all
// requests share and, once a site has been seen, allocates nothing.
package metrics
