// Package plan simulates a crawl in virtual time, with the dispatcher's decisions and the
// scheduler of a real abide. Nothing is sent, and nothing is written:
//
//	result, err := plan.Run(ctx, policy, plan.Scenario{
//		Start: time.Now(),
//		Crawl: plan.Crawl{Target: target, Path: "/", Method: "GET", Requests: 1_000_000, Clients: 20, Latency: 300 * time.Millisecond},
//	})
//	result.WhatIfs, err = plan.WhatIfs(ctx, policy, scenario, result)
//	result.Describe(os.Stdout)
//
// The requests come from a Crawl, or from an access log that ReadLog has read. Each crawler
// sends its next request when it has the answer to the one before.
package plan
